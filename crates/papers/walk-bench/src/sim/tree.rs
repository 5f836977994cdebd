//! Synthetic trees that are never stored: what is below a directory follows from its number.
//!
//! The shape is that of Agrawal, Bolosky, Douceur and Lorch, "A Five-Year Study of File-System
//! Metadata" (FAST 2007), in the form in which Agrawal, Arpaci-Dusseau and Arpaci-Dusseau use it to
//! make trees ("Generating Realistic Impressions for File-System Benchmarking", FAST 2009):
//!
//! - a new directory's parent is a directory with `c` subdirectories with a probability proportional to
//!   `c + 2`;
//! - a directory has `k` files with a probability proportional to `(k + 2.36)^-2`, here up to
//!   [`MAX_FILES_PER_DIRECTORY`].
//!
//! The first is given as a history, one directory after the other. It can be given from the root
//! down as well, which needs no memory: give each child of the root, with `s` directories below and
//! including it, the weight of all of them, `3s - 1`, and a new child of the root the weight `c +
//! 2`. Divided by 3 these are `s - 1/3` and `2/3 + c/3`, a Chinese restaurant process with two
//! parameters, discount 1/3 and strength 2/3 (Pitman, 2006), whose tables, in the order of their
//! first guests, are found by breaking a stick: with `n` guests left the next table has one and of
//! the others a share that is Beta(2/3, 2/3 + k/3), for the `k`th table. Each subtree is such a
//! tree again.

use crate::sim::chance::{beta, binomial, unit};
use pandofs_walk::Rng;

/// Files: where the heavy tail ends. Without an end it has no mean.
pub(crate) const MAX_FILES_PER_DIRECTORY: u64 = 100_000;
const FILES_OFFSET: f64 = 2.36;
const DISCOUNT: f64 = 1.0 / 3.0;
const STRENGTH: f64 = 2.0 / 3.0;

/// A tree with a number of directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Numbers of files and subdirectories follow from it.
    pub seed: u64,
    /// The root included.
    pub directories: u64,
    /// Files of the root, in place of a number that is drawn.
    pub files_of_root: Option<u64>,
}

impl Tree {
    /// A tree with about so many nodes; within a few per cent if there are millions.
    pub fn with_nodes(nodes: u64, seed: u64) -> Tree {
        let per_directory = 1.0 + mean_files();
        let directories = (nodes as f64 / per_directory) as u64;
        Tree {
            seed,
            directories: directories.max(1),
            files_of_root: None,
        }
    }

    /// The worst case for walks that share whole directories.
    pub fn one_directory(files: u64) -> Tree {
        Tree {
            seed: 0,
            directories: 1,
            files_of_root: Some(files),
        }
    }

    /// With all directories in it or below.
    pub fn root(&self) -> Directory {
        Directory {
            id: Rng::new(self.seed).next_u64(),
            directories: self.directories,
            depth: 0,
            files: self.files_of_root,
        }
    }

    /// Directories and files, counted by walking it in this thread.
    pub fn count(&self) -> (u64, u64) {
        let mut stack = vec![self.root()];
        let (mut directories, mut files) = (0, 0);
        while let Some(directory) = stack.pop() {
            directories += 1;
            files += directory.files();
            directory.subdirectories(&mut stack);
        }
        (directories, files)
    }
}

/// Mean of the files in a directory, summed up from the survival function.
fn mean_files() -> f64 {
    let end = MAX_FILES_PER_DIRECTORY as f64;
    FILES_OFFSET * libm::log((end + FILES_OFFSET) / (1.0 + FILES_OFFSET))
        + 0.5 * FILES_OFFSET / (1.0 + FILES_OFFSET)
}

/// One directory, and all that is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    id: u64,
    directories: u64,
    depth: u32,
    files: Option<u64>,
}

impl Directory {
    /// Directories below it, and itself.
    pub fn directories(&self) -> u64 {
        self.directories
    }

    /// 0 is the root.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Files right in it.
    pub fn files(&self) -> u64 {
        if let Some(files) = self.files {
            return files;
        }
        let mut rng = Rng::new(self.id ^ 0xf11e_5000);
        let u = unit(&mut rng);
        // P(more than x) = offset / (x + offset).
        ((FILES_OFFSET * u / (1.0 - u)) as u64).min(MAX_FILES_PER_DIRECTORY)
    }

    /// Appends the directories right in it.
    pub fn subdirectories(&self, out: &mut Vec<Directory>) {
        let mut rng = Rng::new(self.id);
        let mut left = self.directories - 1;
        let mut table = 1.0;
        while left > 0 {
            let share = beta(1.0 - DISCOUNT, STRENGTH + DISCOUNT * table, &mut rng);
            let directories = 1 + binomial(left - 1, share, &mut rng);
            out.push(Directory {
                id: rng.next_u64(),
                directories,
                depth: self.depth + 1,
                files: None,
            });
            left -= directories;
            table += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_directories_it_says_and_about_the_nodes() {
        let tree = Tree::with_nodes(2_000_000, 3);
        let (directories, files) = tree.count();
        assert_eq!(directories, tree.directories);
        let nodes = directories + files;
        assert!((1_900_000..2_100_000).contains(&nodes), "{nodes}");
        assert_eq!(tree.count(), (directories, files));
        assert_ne!(Tree { seed: 4, ..tree }.count().1, files);
    }

    /// Result of the model's history: of its directories 3/5 have no subdirectory and 1/5 have one
    /// (the stationary shares of growth by `c + 2`).
    #[test]
    fn subdirectories_are_distributed_as_the_history_has_it() {
        let tree = Tree {
            seed: 1,
            directories: 100_000,
            files_of_root: None,
        };
        let mut stack = vec![tree.root()];
        let mut with = [0_u32; 2];
        let mut deepest = 0;
        while let Some(directory) = stack.pop() {
            let before = stack.len();
            directory.subdirectories(&mut stack);
            if let Some(count) = with.get_mut(stack.len() - before) {
                *count += 1;
            }
            deepest = deepest.max(directory.depth());
        }
        let share = |count| f64::from(count) / tree.directories as f64;
        assert!((share(with[0]) - 0.6).abs() < 0.02, "{with:?}");
        assert!((share(with[1]) - 0.2).abs() < 0.02, "{with:?}");
        assert!((12..80).contains(&deepest), "{deepest}");
    }

    #[test]
    fn files_are_distributed_with_a_heavy_tail() {
        let mut rng = Rng::new(2);
        let draws = 200_000;
        let files: Vec<u64> = (0..draws)
            .map(|_| {
                Directory {
                    id: rng.next_u64(),
                    directories: 1,
                    depth: 0,
                    files: None,
                }
                .files()
            })
            .collect();
        let share = |above: u64| {
            files.iter().filter(|files| **files >= above).count() as f64 / f64::from(draws)
        };
        for above in [1, 10, 100] {
            let expected = FILES_OFFSET / (above as f64 + FILES_OFFSET);
            assert!(
                (share(above) - expected).abs() < 0.005,
                "{above}: {}",
                share(above)
            );
        }
    }
}

//! Name spaces with the statistics of Xiong et al., section 5.1.1.
//!
//! The paper describes its two by numbers: so many files and directories; more than 92 % of the
//! directories with at most 4 subdirectories and more than 86 % with at most 32 files; of the files
//! 93.45 % in directories with fewer than 4,096 in the first, 89.25 % in those with fewer than 512
//! in the second, in which no directory has more than 2,048. The rest is taken from Agrawal et al.
//! ("A Five-Year Study of File-System Metadata", FAST 2007): a new directory's parent is one with
//! `c` subdirectories with a probability proportional to `c + 2`, and the files of a directory
//! follow a distribution with a tail of exponent 2, cut off so that the paper's shares come out.

use crate::rng::Rng;

/// Objects of a name space are numbered in preorder: a directory, its files, its subdirectories.
pub type Object = u32;
/// The root directory.
pub const ROOT: Object = 0;

/// Distribution of files over directories: `k` or more with the probability `offset / (k +
/// offset)`, up to `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Files {
    /// Larger: more files in a directory.
    pub offset: f64,
    /// Files of the largest directory.
    pub most: u32,
}

/// Kinds of name spaces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// As it stands in tables.
    pub name: &'static str,
    /// The root included.
    pub directories: u32,
    /// In all directories together.
    pub files: u32,
    /// Subdirectories that the root has before anything else is made: people's home directories.
    pub homes: u32,
    /// Numbers of files of single directories.
    pub spread: Files,
}

/// The home directories of a laboratory, early in 2005.
pub const NAMESPACE_1: Kind = Kind {
    name: "Namespace1",
    directories: 25_864,
    files: 698_320,
    homes: 10,
    spread: Files {
        offset: 3.6,
        most: 6_700,
    },
};

/// The larger one that the paper's authors generated.
pub const NAMESPACE_2: Kind = Kind {
    name: "Namespace2",
    directories: 34_721,
    files: 1_010_000,
    homes: 10,
    spread: Files {
        offset: 5.0,
        most: 900,
    },
};

impl Kind {
    /// The same shape with about so many files: the largest directory keeps its part of the whole.
    pub fn with_files(self, files: u32) -> Kind {
        let divisor = (self.files / files.max(1)).max(1);
        let mut kind = self.scaled_down(divisor);
        kind.spread.most = (kind.spread.most / divisor).max(64);
        kind
    }

    /// The same shape with fewer directories and files.
    pub fn scaled_down(self, divisor: u32) -> Kind {
        assert!(divisor > 0, "scaled by nothing");
        Kind {
            directories: (self.directories / divisor).max(16),
            files: (self.files / divisor).max(16),
            ..self
        }
    }
}

/// A name space.
#[derive(Clone, Debug)]
pub struct Space {
    /// Of its kind.
    pub name: String,
    /// The directory of each object; the root is its own.
    pub parents: Vec<Object>,
    /// Whether each object is a directory.
    pub is_dir: Vec<bool>,
    /// The level of each object, 0 for the root.
    pub levels: Vec<u16>,
}

impl Space {
    /// One seed gives one name space on every machine.
    pub fn generate(kind: Kind, seed: u64) -> Space {
        let mut rng = Rng::new(seed, 0x5face);
        let children = hierarchy(kind.directories, kind.homes, &mut rng);
        let files = files(kind, &mut rng);
        let mut space = Space {
            name: kind.name.to_owned(),
            parents: Vec::new(),
            is_dir: Vec::new(),
            levels: Vec::new(),
        };
        // A directory and its parent's object.
        let mut stack = vec![(0_u32, ROOT, 0_u16)];
        while let Some((directory, parent, level)) = stack.pop() {
            let object = space.push(parent, true, level);
            for _ in 0..files[directory as usize] {
                space.push(object, false, level + 1);
            }
            let below = children[directory as usize].iter().rev();
            stack.extend(below.map(|&child| (child, object, level + 1)));
        }
        space
    }

    /// Several name spaces side by side under one root.
    pub fn beside(spaces: &[Space], name: &str) -> Space {
        let mut all = Space {
            name: name.to_owned(),
            parents: Vec::new(),
            is_dir: Vec::new(),
            levels: Vec::new(),
        };
        all.push(ROOT, true, 0);
        for space in spaces {
            let base = all.parents.len() as u32;
            for object in 0..space.len() {
                let parent = match object {
                    0 => ROOT,
                    _ => base + space.parents[object],
                };
                all.push(parent, space.is_dir[object], space.levels[object] + 1);
            }
        }
        all
    }

    fn push(&mut self, parent: Object, is_dir: bool, level: u16) -> Object {
        self.parents.push(parent);
        self.is_dir.push(is_dir);
        self.levels.push(level);
        self.parents.len() as Object - 1
    }

    /// Files and directories.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Returns whether there is not even a root.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The root included.
    pub fn directories(&self) -> usize {
        self.is_dir.iter().filter(|&&is_dir| is_dir).count()
    }

    /// Of each directory: its subdirectories and its files.
    pub fn fan_out(&self) -> Vec<(u32, u32)> {
        let mut of_all = vec![(0, 0); self.len()];
        for object in 1..self.len() {
            let of_parent: &mut (u32, u32) = &mut of_all[self.parents[object] as usize];
            if self.is_dir[object] {
                of_parent.0 += 1;
            } else {
                of_parent.1 += 1;
            }
        }
        let with_kind = of_all.into_iter().zip(&self.is_dir);
        with_kind
            .filter(|(_, is_dir)| **is_dir)
            .map(|(counts, _)| counts)
            .collect()
    }
}

/// The subdirectories of each directory; 0 is the root.
fn hierarchy(directories: u32, homes: u32, rng: &mut Rng) -> Vec<Vec<u32>> {
    let mut children = vec![Vec::new(); directories as usize];
    // Each directory as often as it has weight.
    let mut weights: Vec<u32> = vec![0, 0];
    for directory in 1..directories {
        let parent = if directory <= homes {
            0
        } else {
            weights[rng.below(weights.len() as u64) as usize]
        };
        children[parent as usize].push(directory);
        weights.extend([parent, directory, directory]);
    }
    children
}

/// The number of files of each directory; together exactly as many as there are to be.
fn files(kind: Kind, rng: &mut Rng) -> Vec<u32> {
    let Files { offset, most } = kind.spread;
    let below_most = f64::from(most) / (f64::from(most) + offset);
    // One draw from each of as many equal parts of the distribution, so that its tail, which is
    // what the paper's shares are about, does not come and go with the seed.
    let mut files: Vec<u32> = (0..kind.directories)
        .map(|part| {
            let u = below_most * (f64::from(part) + rng.unit()) / f64::from(kind.directories);
            (offset * u / (1.0 - u)) as u32
        })
        .collect();
    for at in (1..files.len()).rev() {
        files.swap(at, rng.below(at as u64 + 1) as usize);
    }
    // The sum comes out by chance; what is missing or too much is spread over small directories,
    // whose number decides nothing.
    let mut sum: u64 = files.iter().map(|&files| u64::from(files)).sum();
    let wanted = u64::from(kind.files);
    while sum != wanted {
        let at = rng.below(u64::from(kind.directories)) as usize;
        if sum < wanted && files[at] < SMALL {
            files[at] += 1;
            sum += 1;
        } else if sum > wanted && files[at] > 0 {
            // Larger ones give more, so that this ends also where few are small.
            let less = u64::from(files[at]).div_ceil(16).min(sum - wanted);
            files[at] -= less as u32;
            sum -= less;
        }
    }
    files
}

/// Files: under this many a directory may be given more of them. (32 is where the paper counts.)
const SMALL: u32 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    fn share<T>(all: &[T], of: impl Fn(&T) -> bool) -> f64 {
        all.iter().filter(|one| of(one)).count() as f64 / all.len() as f64
    }

    fn files_in(fan_out: &[(u32, u32)], below: u32) -> f64 {
        let sum = |most: u32| -> f64 {
            let some = fan_out.iter().filter(|(_, files)| *files < most);
            some.map(|(_, files)| f64::from(*files)).sum()
        };
        sum(below) / sum(u32::MAX)
    }

    /// Every number that section 5.1.1 and section 5.1.3 give.
    #[test]
    fn the_statistics_are_those_of_the_paper() {
        for seed in [1, 2] {
            let first = Space::generate(NAMESPACE_1, seed);
            let second = Space::generate(NAMESPACE_2, seed);
            for (space, kind) in [(&first, NAMESPACE_1), (&second, NAMESPACE_2)] {
                assert_eq!(space.directories() as u32, kind.directories);
                assert_eq!(space.len() as u32, kind.directories + kind.files);
                let fan_out = space.fan_out();
                assert!(share(&fan_out, |(dirs, _)| *dirs <= 4) > 0.92);
                let few = share(&fan_out, |(_, files)| *files <= 32);
                assert!(few > 0.86, "{} {few}", kind.name);
            }
            let in_smaller = files_in(&first.fan_out(), 4_096);
            assert!((in_smaller - 0.9345).abs() < 0.025, "{in_smaller}");
            let in_smaller = files_in(&second.fan_out(), 512);
            assert!((in_smaller - 0.8925).abs() < 0.03, "{in_smaller}");
            let most = second.fan_out().iter().map(|(_, files)| *files).max();
            assert!(most <= Some(2_048), "{most:?}");
        }
    }

    #[test]
    fn parents_come_before_their_children() {
        let space = Space::generate(NAMESPACE_1.scaled_down(50), 3);
        for object in 1..space.len() {
            let parent = space.parents[object] as usize;
            assert!(parent < object && space.is_dir[parent]);
            assert_eq!(space.levels[object], space.levels[parent] + 1);
        }
    }

    #[test]
    fn beside_each_other_they_keep_their_shapes() {
        let small = Space::generate(NAMESPACE_1.scaled_down(50), 3);
        let both = Space::beside(&[small.clone(), small.clone()], "both");
        assert_eq!(both.len(), 2 * small.len() + 1);
        let mut expected = vec![(2, 0)];
        expected.extend(small.fan_out());
        expected.extend(small.fan_out());
        assert_eq!(both.fan_out(), expected);
    }
}

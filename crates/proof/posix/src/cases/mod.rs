//! The cases, one family a file.

mod access;
mod acl;
mod capabilities;
mod copies;
mod data;
mod link;
mod listing;
mod locks;
mod make;
mod mapped;
mod modes;
mod open;
mod paths;
mod programs;
mod remove;
mod rename;
mod space;
mod stat;
mod times;
mod tmpfile;
mod two;
mod utimens;
mod xattrs;

use crate::case::Case;

/// All of them, in the order in which they run.
pub(crate) fn all() -> Vec<Case> {
    let families: [&[Case]; 23] = [
        open::CASES,
        tmpfile::CASES,
        link::CASES,
        remove::CASES,
        make::CASES,
        rename::CASES,
        data::CASES,
        space::CASES,
        copies::CASES,
        mapped::CASES,
        modes::CASES,
        access::CASES,
        capabilities::CASES,
        utimens::CASES,
        times::CASES,
        stat::CASES,
        listing::CASES,
        xattrs::CASES,
        acl::CASES,
        locks::CASES,
        paths::CASES,
        programs::CASES,
        two::CASES,
    ];
    families.concat()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique_and_say_their_family() {
        let all = super::all();
        let mut names: Vec<_> = all.iter().map(|it| it.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(names.iter().all(|it| it.split('.').count() == 2));
        assert!(all.iter().all(|it| !it.clause.is_empty()));
    }
}

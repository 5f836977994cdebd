//! Data objects: each belongs to a file.
//!
//! That is a striped one whose layout has that server, one that is about to be striped, or one
//! whose data is on the reclaim list.

use super::Report;
use crate::tables::Tables;
use pandofs_api::Layout;
use pandofs_namespace::records::ReclaimRecord;
use pandofs_types::{Ino, ServerId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(tables: &Tables, report: &mut Report<'_>) {
    // Most files have none, and what is not needed is not gathered.
    let with_objects: BTreeSet<Ino> = tables.objects.keys().map(|(_, ino)| *ino).collect();
    let mut allowed: BTreeMap<Ino, BTreeSet<ServerId>> = BTreeMap::new();
    let mut allow = |ino: Ino, layout: &Layout| {
        if layout.is_valid() && with_objects.contains(&ino) {
            allowed.entry(ino).or_default().extend(layout.servers());
        }
    };
    for (&(shard, ino), inode) in &tables.inodes {
        // An inline file's objects are written before its inode says that it is striped.
        if let Some(layout) = inode.holds.layout() {
            let is_over_known = usize::from(layout.servers) <= tables.map.servers.len();
            if !layout.is_valid() || !is_over_known {
                let text = format!("its layout makes no sense: {layout:?}");
                report.add(format!("inode {ino} on shard {shard}"), text);
            }
            allow(ino, layout);
        }
    }
    for (&(shard, dir), parts) in &tables.parts {
        if let Some(choice) = &parts.settings.layout
            && !choice.fits(tables.map.servers.len().min(usize::from(u16::MAX)) as u16)
        {
            let text = format!("what is to be the layout of its files makes no sense: {choice:?}");
            report.add(format!("directory {dir} on shard {shard}"), text);
        }
    }
    for (&(_, ino), record) in &tables.reclaim {
        match record {
            ReclaimRecord::Gone {
                layout: Some(layout),
                ..
            }
            | ReclaimRecord::Truncate { layout, .. }
            | ReclaimRecord::Fill { layout, .. } => {
                allow(ino, layout);
            }
            ReclaimRecord::Gone { layout: None, .. } | ReclaimRecord::Orphan => {}
        }
    }
    for (&(server, ino), bytes) in &tables.objects {
        let subject = || format!("data object of inode {ino} on server {server}");
        match allowed.get(&ino) {
            None => report.add(
                subject(),
                format!("it has {bytes} bytes and belongs to no file"),
            ),
            Some(servers) if !servers.contains(&server) => {
                report.add(
                    subject(),
                    "the file's layout does not have that server".into(),
                );
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::inode::Holds;
    use crate::testing::{self, STRIPED, found};
    use pandofs_api::LayoutChoice;
    use pandofs_namespace::records::ReclaimRecord;
    use pandofs_types::{Ino, ServerId, ShardId};

    #[test]
    fn leaked_data_is_found_unless_it_is_being_removed() {
        let mut tables = testing::sound();
        let dead = Ino::new(ShardId(0), 99);
        tables.objects.insert((ServerId(1), dead), 4_096);
        let subject = format!("data object of inode {dead} on server 1");
        assert!(found(&tables, "objects", &subject).contains("belongs to no file"));
        let layout = Some(testing::layout());
        tables.reclaim.insert(
            (ShardId(0), dead),
            ReclaimRecord::Gone {
                layout,
                trail: vec![],
            },
        );
        assert!(testing::problems(&tables, "objects").is_empty());
    }

    #[test]
    fn layouts_over_servers_that_there_are_not_are_found() {
        let mut tables = testing::sound();
        for inode in tables.inodes.values_mut() {
            if let Holds::Inline { layout, .. } = &mut inode.holds {
                layout.servers = 5;
            }
        }
        let problems = testing::problems(&tables, "objects");
        assert!(!problems.is_empty());

        let mut tables = testing::sound();
        let (&(shard, dir), parts) = tables.parts.iter_mut().next().unwrap();
        let choice = LayoutChoice {
            count: Some(4),
            first: Some(ServerId(3)),
            ..LayoutChoice::default()
        };
        parts.settings.layout = Some(choice);
        assert!(testing::problems(&tables, "objects").is_empty());
        let parts = tables.parts.get_mut(&(shard, dir)).unwrap();
        parts.settings.layout = Some(LayoutChoice {
            count: Some(5),
            ..choice
        });
        let subject = format!("directory {dir} on shard {shard}");
        assert!(found(&tables, "objects", &subject).contains("makes no sense"));
    }

    #[test]
    fn data_on_the_wrong_server_is_found() {
        let mut tables = testing::sound();
        tables.objects.insert((ServerId(3), STRIPED), 1);
        let subject = format!("data object of inode {STRIPED} on server 3");
        assert!(found(&tables, "objects", &subject).contains("does not have that server"));
    }
}

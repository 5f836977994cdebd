//! Files that are opened and lose their names in one batch.

use crate::support::{Cluster, name};
use pandofs_api::{NewNode, Reply, Request};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::Output;
use pandofs_types::Ino;

fn unlink(text: &str) -> Request {
    Request::Unlink {
        dir: Ino::ROOT,
        name: name(text),
    }
}

/// An `open` that truncates is a record of its own. When the record that takes the last name was chosen
/// before it was applied, that one freed a file that a program had just been told to have open.
#[test]
fn a_file_that_is_being_opened_is_kept_when_its_name_goes() {
    for truncate in [true, false] {
        let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
        let create = Request::Create {
            dir: Ino::ROOT,
            name: name("file"),
            node: NewNode::File,
            mode: 0o644,
            open: false,
        };
        let Ok(Reply::Entry(entry)) = cluster.call(0, create) else {
            panic!("it is made");
        };
        let ino = entry.ino;
        let open = Request::Open {
            ino,
            access: 6,
            truncate,
        };
        let batch = vec![
            cluster.request_by(6, 0, open),
            cluster.request_by(7, 0, unlink("file")),
        ];
        let step = cluster.batch(0, batch);
        let answers = step.outputs.iter().filter(|output| {
            let Output::Answer { result, .. } = output else {
                return false;
            };
            assert!(result.is_ok(), "{result:?}");
            true
        });
        assert_eq!(answers.count(), 2);
        let Ok(Reply::Inode(inode)) = cluster.call(0, Request::GetAttr { ino }) else {
            panic!("it is gone, and somebody has it open");
        };
        assert_eq!(inode.attr.nlink, 0);

        let release = cluster.request_by(6, 0, Request::Release { inos: vec![ino] });
        cluster.input(0, release);
        let gone = cluster.call(0, Request::GetAttr { ino });
        assert!(
            gone.is_err(),
            "nobody has it open, and it is there: {gone:?}"
        );
    }
}

//! Link: a further name for a file.

use super::{Checked, Execute, Plan, PlanAnswer};
use crate::{Context, Stop, View};
use pandofs_api::{Step, op, step};
use pandofs_types::{FileKind, FsError};

impl Execute for op::Link {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        cx.free_name(view, self.dir, &self.name)?;
        if self.inode_shard.0 >= view.map.shard_count() {
            return Err(FsError::Stale.into());
        }
        let time = cx.choices.time;
        let insert = Step::Insert(step::Insert {
            dir: self.dir,
            name: self.name.clone(),
            ino: None,
            kind: FileKind::File,
            shard: self.inode_shard,
            replace: false,
            caller: cx.caller.clone(),
            time,
        });
        let link = Step::Link(step::Link {
            ino: self.ino,
            time,
        });
        let plan = Plan {
            steps: vec![(view.shard, insert), (self.inode_shard, link)],
            answer: PlanAnswer::Made {
                shard: self.inode_shard,
            },
        };
        Ok(plan.into())
    }

    fn needs_space(&self, _view: &View<'_>) -> Result<bool, Stop> {
        Ok(true)
    }
}

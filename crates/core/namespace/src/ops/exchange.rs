//! Exchange (`RENAME_EXCHANGE`): two names change places. The first name is here; what the other one leads
//! to is found out where it is, and what follows from that with it.

use super::rename::check_other;
use super::{Checked, Execute, Plan, PlanAnswer};
use crate::permission::must_own;
use crate::steps::{lines_of, moved};
use crate::touches::entry_key;
use crate::{Context, Stop, View};
use pandofs_api::{Step, Swap, SwappedEntry, op};
use pandofs_types::{LeaseKey, Name};

impl Execute for op::Exchange {
    fn check(&self, view: &View<'_>, cx: &Context<'_>) -> Result<Checked, Stop> {
        let (dir, caller) = (self.dir, cx.caller);
        let (owned, entry) = cx.taken_name(view, dir, &self.name)?;
        check_other(view, self.new_dir, self.new_shard)?;
        let comes = SwappedEntry {
            ino: entry.ino,
            kind: entry.kind,
            shard: entry.shard,
        };
        let swap = |dir, name: &Name, other, own| {
            let swap = Swap {
                dir,
                name: name.clone(),
                other,
                comes,
                own,
                caller: caller.clone(),
                time: cx.choices.time,
                stamp: cx.choices.random,
            };
            Step::Swap(Box::new(swap))
        };
        let mut steps = vec![
            (view.shard, swap(dir, &self.name, self.new_dir, true)),
            (
                self.new_shard,
                swap(self.new_dir, &self.new_name, dir, false),
            ),
        ];
        let must_own = must_own(caller, &owned.parts);
        steps.extend(moved(
            &comes,
            dir,
            self.new_dir,
            must_own,
            caller,
            cx.choices.time,
        )?);
        steps.extend(lines_of(view.map, &comes, cx.choices.random));
        let plan = Plan {
            steps,
            answer: PlanAnswer::Exchanged { ino: entry.ino },
        };
        Ok(plan.into())
    }

    fn depends(&self, view: &View<'_>) -> Vec<LeaseKey> {
        vec![
            entry_key(view, self.dir, &self.name),
            entry_key(view, self.new_dir, &self.new_name),
        ]
    }
}

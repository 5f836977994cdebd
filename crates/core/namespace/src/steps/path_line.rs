//! A line of the path log: a directory above others has changed.

use super::{Given, Held, Perform, Prepared};
use crate::locks::Lock;
use crate::paths::Line;
use crate::{LockSet, Stop, Txn, View};
use pandofs_api::{StepResult, step};

impl Perform for step::PathLine {
    fn prepare(&self, _txn: &mut Txn<'_, '_>, cx: &Held<'_>) -> Result<Prepared, Stop> {
        let lock = Lock::Path(self.dir);
        cx.locks.check(&lock, cx.own)?;
        Ok(Prepared {
            locks: vec![lock],
            ..Prepared::default()
        })
    }

    fn execute(&self, txn: &mut Txn<'_, '_>, _given: &Given<'_>) -> Result<(), Stop> {
        let seen = txn.view().path_log()? + 1;
        txn.put_path_log(seen);
        let itself = self.moved.then_some(Line::Itself);
        for line in [Line::Below].into_iter().chain(itself) {
            let number = line.of(&txn.view(), self.dir);
            let mut line = txn.view().path_line(number)?;
            line.last = seen;
            line.sum = line.sum.wrapping_add(self.stamp);
            txn.put_path_line(number, &line);
        }
        Ok(())
    }

    fn locks(&self, _view: &View<'_>, _own: &StepResult) -> Result<LockSet, Stop> {
        Ok(vec![Lock::Path(self.dir)])
    }
}

//! Queue of spans that have ended, and the thread that sends them.

use crate::collector::LastError;
use crate::limits::{LAST_TIME, MAX_QUEUED_SPANS, MAX_SENT_SPANS, SEND_DELAY};
use opentelemetry::Context;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::thread;
use std::time::{Duration, Instant};

/// Between two attempts to have a full queue emptied.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// Spans of a process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The collector has them.
    pub sent: u64,
    /// They came faster than they were sent.
    pub dropped: u64,
    /// The collector was away, too slow, or did not want them.
    pub failed: u64,
}

/// [`Counts`] while they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl Counting {
    pub(crate) fn read(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            sent: read(&self.sent),
            dropped: read(&self.dropped),
            failed: read(&self.failed),
        }
    }
}

enum Order {
    Send(Box<SpanData>),
    /// Send what there is, and say so there.
    Flush(Sender<()>),
}

/// The end of the queue where spans are put in.
#[derive(Debug)]
pub(crate) struct Queue {
    orders: SyncSender<Order>,
    counting: Arc<Counting>,
}

impl Queue {
    /// With a thread that sends by `exporter` what comes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start<E: SpanExporter + 'static>(
        exporter: E,
        endpoint: String,
        last_error: LastError,
        counting: Arc<Counting>,
    ) -> io::Result<Queue> {
        let (orders, taken) = sync_channel(MAX_QUEUED_SPANS);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut told = Told {
            endpoint,
            last_error,
            counting: Arc::clone(&counting),
            is_failing: false,
        };
        thread::Builder::new()
            .name("pandofs-spans".to_owned())
            .spawn(move || {
                empty(&taken, |batch| {
                    let spans = batch.len() as u64;
                    told.sent(spans, runtime.block_on(exporter.export(batch)));
                });
            })?;
        Ok(Queue { orders, counting })
    }
}

/// Sends what comes until nothing can come any more.
fn empty(orders: &Receiver<Order>, mut send: impl FnMut(Vec<SpanData>)) {
    let mut batch = Vec::new();
    let mut due = Instant::now();
    loop {
        let order = match batch.is_empty() {
            true => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => orders.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        let flushed = match order {
            Ok(Order::Send(span)) => {
                if batch.is_empty() {
                    due = Instant::now() + SEND_DELAY;
                }
                batch.push(*span);
                if batch.len() < MAX_SENT_SPANS {
                    continue;
                }
                None
            }
            Ok(Order::Flush(done)) => Some(done),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                if !batch.is_empty() {
                    send(batch);
                }
                return;
            }
        };
        if !batch.is_empty() {
            send(std::mem::take(&mut batch));
        }
        if let Some(done) = flushed {
            // The caller may have waited long enough.
            let _ = done.send(());
        }
    }
}

/// Counts what became of spans, and tells the log when that changes.
struct Told {
    endpoint: String,
    last_error: LastError,
    counting: Arc<Counting>,
    is_failing: bool,
}

impl Told {
    fn sent(&mut self, spans: u64, result: OTelSdkResult) {
        let Err(error) = result else {
            self.counting.sent.fetch_add(spans, Ordering::Relaxed);
            if std::mem::take(&mut self.is_failing) {
                tracing::info!(
                    "the collector of traces at {} takes spans again; {} were lost so far",
                    self.endpoint,
                    self.lost()
                );
            }
            return;
        };
        self.counting.failed.fetch_add(spans, Ordering::Relaxed);
        let why = self.last_error.take();
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                "no spans can be sent to the collector of traces at {}: they are dropped until it is back, which is told \
                 once ({})",
                self.endpoint,
                why.unwrap_or_else(|| error.to_string())
            );
        }
    }

    fn lost(&self) -> u64 {
        let counts = self.counting.read();
        counts.failed + counts.dropped
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.orders.try_send(Order::Send(Box::new(span))).is_err() {
            self.counting.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.shutdown_with_timeout(LAST_TIME)
    }

    /// Waits for what is queued to be sent.
    fn shutdown_with_timeout(&self, limit: Duration) -> OTelSdkResult {
        let until = Instant::now() + limit;
        let (done, is_done) = channel();
        let mut order = Order::Flush(done);
        loop {
            order = match self.orders.try_send(order) {
                Ok(()) => break,
                Err(TrySendError::Full(order)) if Instant::now() < until => order,
                Err(_) => return Err(OTelSdkError::Timeout(limit)),
            };
            thread::sleep(FULL_PAUSE);
        }
        let left = until.saturating_duration_since(Instant::now());
        is_done
            .recv_timeout(left)
            .map_err(|_| OTelSdkError::Timeout(limit))
    }
}

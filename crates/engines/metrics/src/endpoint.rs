//! Endpoint: an address, and the thread that answers there.

use crate::address::Address;
use crate::family::Family;
use crate::http;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// A source of figures. It is read by one thread at a time, and waits for nothing for long.
pub trait Source: Send + Sync + 'static {
    /// The figures as they are now.
    ///
    /// # Errors
    /// [`Unread`] when they cannot be had in time.
    fn read(&self) -> Result<Vec<Family>, Unread>;
}

/// Why there are no figures, for the person who asked for them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unread(pub String);

/// An address that is taken, where nobody answers yet: connections wait.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: Address,
}

/// An address where somebody answers. Dropping it ends that.
pub struct Endpoint {
    address: Address,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Takes the address, before there is anything to tell: that it cannot be had is known at once.
    ///
    /// # Errors
    /// The system's.
    pub fn on(address: Address) -> io::Result<Listening> {
        let listener = TcpListener::bind(address.0)?;
        // As tokio wants it.
        listener.set_nonblocking(true)?;
        let address = Address(listener.local_addr()?);
        Ok(Listening { listener, address })
    }

    /// The address, with the port that the system has chosen if none was given.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Answers from now on, in a thread of its own.
    ///
    /// # Errors
    /// The system's.
    pub fn serve(self, source: Arc<dyn Source>) -> io::Result<Endpoint> {
        let (stop, stopped) = oneshot::channel();
        // One thread for all connections, and one that reads.
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(1)
            .thread_name("pandofs-metrics")
            .build()?;
        let listener = {
            let _runtime = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let thread = thread::Builder::new()
            .name("pandofs-metrics".to_owned())
            .spawn(move || {
                runtime.block_on(http::serve(listener, source, stopped));
                // A read that is under way is not waited for.
                runtime.shutdown_background();
            })?;
        Ok(Endpoint {
            address: self.address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Endpoint {
    /// Where it answers.
    pub fn address(&self) -> Address {
        self.address
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the metrics endpoint panicked");
        }
    }
}

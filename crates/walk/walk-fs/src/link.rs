//! Carrier of messages between the processes of a walk.

/// A way to the other processes, as MPI is one. Messages from one process to another arrive in the
/// order in which they were sent. Used by one thread.
pub trait Link {
    /// The number of this process, from 0.
    fn rank(&self) -> u32;

    /// Returns how many there are.
    fn ranks(&self) -> u32;

    /// Sends something to all processes, and returns what each has sent, in their order. All call
    /// it. Each gets what all have sent, so that has to be short.
    fn all_gather(&mut self, bytes: &[u8]) -> Vec<Vec<u8>>;

    /// Begins to send; never waits for the other side. Messages may be of any length.
    fn send(&mut self, to: u32, bytes: Vec<u8>);

    /// The same, and [`unreceived`](Link::unreceived) counts it until the other side has begun to
    /// receive it.
    fn send_counted(&mut self, to: u32, bytes: Vec<u8>);

    /// Messages of [`send_counted`](Link::send_counted) that have not been received.
    fn unreceived(&mut self) -> usize;

    /// Returns whether the memory of all messages was let go: they are on their way.
    fn is_sent(&mut self) -> bool;

    /// A message that has arrived, with its sender, if there is one. Does not wait.
    fn receive(&mut self) -> Option<(u32, Vec<u8>)>;
}

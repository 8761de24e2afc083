//! Where the shared history is carried, and in what time.

use std::time::Duration;

/// How to reach the other replicas.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The NATS server: `nats://host:port`, several of one cluster separated by commas. A user and password, or a token, may
    /// stand in front of the host (`nats://user:password@host`); they never appear in a log.
    pub nats: String,
    /// Intervals and limits. The defaults are for production; tests shorten them.
    pub timing: Timing,
}

/// Intervals and limits of the sharing.
#[derive(Clone, Debug)]
pub struct Timing {
    /// How often due work is looked for.
    pub beat: Duration,
    /// How often a replica says that it is there.
    pub announce: Duration,
    /// After this long without a word a peer is gone.
    pub peer_silence: Duration,
    /// How long a replica that joins waits for offers before it chooses the best.
    pub offers: Duration,
    /// After this long without any offer, a replica that joins starts empty.
    pub no_offers: Duration,
    /// After this long without a part of a transfer, another peer is asked.
    pub part_silence: Duration,
    /// A replica that was away for longer joins anew.
    pub away: Duration,
    /// How long nothing may be lost until the sharing counts as whole again.
    pub quiet: Duration,
    /// The first pause before a connection is tried again; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// Bytes a second at which all transfers to others together are sent.
    pub transfer_rate: f64,
}

// === impl ClusterConfig ===

impl ClusterConfig {
    /// With the default timing.
    pub fn at(nats: impl Into<String>) -> Self {
        Self { nats: nats.into(), timing: Timing::default() }
    }
}

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(1),
            announce: Duration::from_secs(4),
            peer_silence: Duration::from_secs(13),
            offers: Duration::from_secs(1),
            no_offers: Duration::from_secs(15),
            part_silence: Duration::from_secs(5),
            away: Duration::from_secs(30),
            quiet: Duration::from_secs(10),
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(15),
            transfer_rate: 4e6,
        }
    }
}

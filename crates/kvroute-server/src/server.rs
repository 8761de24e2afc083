//! A whole router in this process: its sockets, its tasks, and how it stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use kvroute_metrics::{Metrics, MetricsError, MetricsOptions, Plane};
use kvroute_router::config::ReadyWhen;
use kvroute_router::{Router, RouterConfig, RouterError, RouterPlan};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin_plane::AdminPlane;
use crate::admin_tokens::AdminTokens;
use crate::data_plane::DataPlane;
use crate::keys::ApiKeys;
use crate::limits::Limits;
use crate::listener::{ListenError, Listener, Refusals};
use crate::live::Live;
use crate::named_file::NamedFile;
use crate::reload::{Fixed, Reload};
use crate::threads::Threads;
use crate::tls::ServerTls;
use crate::{admin_plane, data_plane, descriptors};

/// How long the admin plane may take to finish its last scrape.
const ADMIN_DRAIN: Duration = Duration::from_secs(2);

/// Everything a running router is told, already validated.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Address of the data plane; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Address of the admin plane; port 0 takes a free one.
    pub admin_listen: SocketAddr,
    /// Networks of the callers that may steer the selection, and see where their requests went and why.
    pub trusted: Vec<IpNet>,
    /// Keys of those who may ask; `None` is open to all.
    pub api_keys: Option<ApiKeys>,
    /// Largest accepted request body in bytes.
    pub max_body: usize,
    /// Which pools must be able to take requests for `/ready` to say so.
    pub ready: ReadyWhen,
    /// How long streams may go on after a stop.
    pub drain: Duration,
    /// Names and constant labels of the metrics.
    pub metrics: MetricsOptions,
    /// Pools and workers.
    pub router: RouterConfig,
    /// Who may do what, over which connections and how much of it.
    pub security: Security,
}

/// What stands between a router and those who talk to it. Without anything: plain connections, and an admin plane for the
/// programs of this machine.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Tokens of those who may use the admin plane; `None` is open to programs of this machine.
    pub admin_tokens: Option<AdminTokens>,
    /// TLS of the data plane.
    pub tls: Option<ServerTls>,
    /// TLS of the admin plane.
    pub admin_tls: Option<ServerTls>,
    /// What clients may take.
    pub limits: Limits,
    /// The configuration as it may be shown to those who may use the admin plane.
    pub shown: serde_json::Map<String, serde_json::Value>,
    /// Files that were read beside the configuration: a change of one of them is a change of the configuration.
    pub files: Vec<NamedFile>,
}

/// Why a router did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket could not be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The admin plane would be open to other machines.
    #[error(
        "server.admin_listen is {0}, which other machines may reach, and server.admin_token_file is not set; name a file with \
         a token, or listen on a loopback address such as 127.0.0.1:9090"
    )]
    AdminOpen(SocketAddr),
    /// The metrics' names or labels are unusable.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// A pool cannot work as configured.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// The operating system gives no threads.
    #[error("cannot start the threads that serve clients: {0}; raise the limit of processes (ulimit -u)")]
    Threads(#[source] std::io::Error),
}

/// A running router.
#[derive(Debug)]
pub struct Server {
    data_address: SocketAddr,
    admin_address: SocketAddr,
    router: Arc<Router>,
    stop_data: CancellationToken,
    stop_admin: CancellationToken,
    planes: TaskTracker,
    data_drained: TaskTracker,
    reload: Reload,
    threads: Threads,
}

// === impl ServeConfig ===

impl ServeConfig {
    /// Whoever can talk to the admin plane can add workers, and so read prompts: other machines need a token.
    ///
    /// # Errors
    /// Other machines may reach it and there is no token.
    pub fn check_admin(&self) -> Result<(), StartError> {
        let is_open = self.security.admin_tokens.is_none();
        if is_open && !self.admin_listen.ip().to_canonical().is_loopback() {
            return Err(StartError::AdminOpen(self.admin_listen));
        }
        Ok(())
    }
}

// === impl Server ===

impl Server {
    /// Checks the pools, binds both sockets, starts the pools and serves.
    pub async fn start(config: ServeConfig) -> Result<Self, StartError> {
        config.check_admin()?;
        let (live, fixed) = (Arc::new(Live::new(&config)), Arc::new(Fixed::new(&config)));
        let plan = RouterPlan::new(config.router)?;
        let data = Listener::bind(config.listen, "server.listen", &live.data).await?;
        let admin = Listener::bind(config.admin_listen, "server.admin_listen", &live.admin).await?;
        descriptors::raise_for(config.security.limits.connections);
        let metrics = Metrics::new(&config.metrics)?;
        let router = Arc::new(Router::start(plan, metrics)?);
        let server = Self {
            data_address: data.address(),
            admin_address: admin.address(),
            router: Arc::clone(&router),
            stop_data: CancellationToken::new(),
            stop_admin: CancellationToken::new(),
            planes: TaskTracker::new(),
            data_drained: TaskTracker::new(),
            reload: Reload::new(Arc::clone(&live), fixed),
            threads: Threads::start().map_err(StartError::Threads)?,
        };
        let data_app = data_plane::app(DataPlane { router: Arc::clone(&router), live: Arc::clone(&live) });
        let cutting = Arc::clone(&router);
        let cut_streams = move || cutting.cut_streams();
        let refusals = |plane| Refusals::new(plane, router.metrics().connections().clone());
        let (of_data, of_admin) = (refusals(Plane::Data), refusals(Plane::Admin));
        let data = data.serving_on(server.threads.place());
        let serving = data.serve(data_app, server.stop_data.clone(), config.drain, of_data, cut_streams);
        server.data_drained.spawn(serving);
        let admin_app = admin_plane::app(AdminPlane { router, live });
        server.planes.spawn(admin.serve(admin_app, server.stop_admin.clone(), ADMIN_DRAIN, of_admin, || {}));
        tracing::info!(listen = %server.data_address, admin = %server.admin_address, "serving");
        Ok(server)
    }

    /// Address of the data plane, with its real port.
    pub const fn data_address(&self) -> SocketAddr {
        self.data_address
    }

    /// Address of the admin plane, with its real port.
    pub const fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// What new settings are handed to while this server runs.
    pub fn reload_handle(&self) -> Reload {
        self.reload.clone()
    }

    /// The router behind both planes.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// Stops accepting, lets streams finish for at most the drain time, then ends every task.
    ///
    /// The admin plane outlives the data plane, so that the last numbers can still be scraped.
    pub async fn stop(self) {
        self.router.begin_stop();
        self.stop_data.cancel();
        self.data_drained.close();
        self.data_drained.wait().await;
        self.stop_admin.cancel();
        self.planes.close();
        self.planes.wait().await;
        self.router.stop().await;
        drop(self.threads);
    }
}

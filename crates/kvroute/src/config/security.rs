//! Keys, tokens and certificates: files that are read here, so that what is wrong with one is found before a port is bound
//! and by `kvroute check`.

use std::path::PathBuf;

use kvroute_engine::tls::Identity;
use kvroute_engine::{TlsError, UpstreamTls};
use kvroute_server::{AdminTokens, ApiKeys, Limits, NamedFile, Security, ServerTls};

use super::problem::Problem;
use super::raw::{RawConfig, RawSection};
use super::setting::{Row, Setting};
use super::settings as key;
use super::shown::shown;
use super::value::{FilePath, Name};

/// The settings that name the files of one end of a connection.
struct Files {
    /// Under which they stand.
    table: &'static str,
    certificate: &'static Setting<FilePath>,
    key: &'static Setting<FilePath>,
    /// Authorities of the other end.
    ca: &'static Setting<FilePath>,
}

const DATA: Files = Files {
    table: "server.tls",
    certificate: &key::SERVER_TLS_CERT,
    key: &key::SERVER_TLS_KEY,
    ca: &key::SERVER_TLS_CLIENT_CA,
};

const ADMIN: Files = Files {
    table: "server.admin_tls",
    certificate: &key::SERVER_ADMIN_TLS_CERT,
    key: &key::SERVER_ADMIN_TLS_KEY,
    ca: &key::SERVER_ADMIN_TLS_CLIENT_CA,
};

/// Of a pool, seen from its own table.
const WORKERS: Files =
    Files { table: "tls", certificate: &key::POOL_TLS_CERT, key: &key::POOL_TLS_KEY, ca: &key::POOL_TLS_CA };

// === impl Files ===

impl Files {
    const fn all(&self) -> [&'static Setting<FilePath>; 3] {
        [self.certificate, self.key, self.ca]
    }
}

/// Everything but the keys of clients.
pub(super) fn resolve(raw: &RawConfig) -> Result<Security, Problem> {
    let root = &raw.root;
    Ok(Security {
        admin_tokens: admin_tokens(root)?,
        tls: plane(root, &DATA)?,
        admin_tls: plane(root, &ADMIN)?,
        limits: limits(root)?,
        shown: shown(raw),
        files: files(raw)?,
    })
}

/// The keys of clients.
pub(super) fn api_keys(root: &RawSection) -> Result<Option<ApiKeys>, Problem> {
    let Some((path, file)) = file(root, &key::SERVER_API_KEYS_FILE)? else { return Ok(None) };
    let keys = ApiKeys::parse(&text(&path, &file)?);
    keys.map(Some).map_err(|error| unusable(&path, &file, error))
}

fn admin_tokens(root: &RawSection) -> Result<Option<AdminTokens>, Problem> {
    let Some((path, file)) = file(root, &key::SERVER_ADMIN_TOKEN_FILE)? else { return Ok(None) };
    let tokens = AdminTokens::parse(&text(&path, &file)?);
    tokens.map(Some).map_err(|error| unusable(&path, &file, error))
}

fn plane(root: &RawSection, files: &Files) -> Result<Option<ServerTls>, Problem> {
    let [certificate, key, ca] = found(root, files)?;
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if ca.is_none() => return Ok(None),
        _ => return Err(incomplete(files.table)),
    };
    let tls = ServerTls::load(&certificate, &key, ca.as_deref());
    tls.map(Some).map_err(|error| refused(files.table, &error))
}

/// How the workers of a pool are verified, and what is shown to them.
pub(super) fn workers(section: &RawSection) -> Result<UpstreamTls, Problem> {
    let table = format!("{}.{}", section.path(), WORKERS.table);
    let [certificate, key, ca] = found(section, &WORKERS)?;
    let refused = |error| refused(&table, &error);
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Identity::load(&certificate, &key).map_err(refused)?),
        (None, None) if ca.is_none() => return Ok(UpstreamTls::default()),
        (None, None) => None,
        _ => return Err(incomplete(&table)),
    };
    UpstreamTls::load(ca.as_deref(), identity).map_err(refused)
}

fn limits(root: &RawSection) -> Result<Limits, Problem> {
    Ok(Limits {
        connections: usize::try_from(root.get(&key::SERVER_LIMITS_CONNECTIONS)?.0).unwrap_or(usize::MAX),
        streams: root.get(&key::SERVER_LIMITS_STREAMS)?.0,
        head: root.get(&key::SERVER_LIMITS_HEAD)?.0,
        body: root.get(&key::SERVER_LIMITS_BODY)?.0,
        keep_alive: root.get(&key::SERVER_LIMITS_KEEP_ALIVE)?.0,
        stall: root.get(&key::SERVER_LIMITS_STALL)?.0,
        requests: root.get(&key::SERVER_LIMITS_REQUESTS)?.0,
        rate: root.get(&key::SERVER_LIMITS_RATE)?.0,
    })
}

/// Every file whose content is part of the configuration.
fn files(raw: &RawConfig) -> Result<Vec<NamedFile>, Problem> {
    let mut files = Vec::new();
    let in_root =
        [&[&key::SERVER_API_KEYS_FILE, &key::SERVER_ADMIN_TOKEN_FILE][..], &DATA.all(), &ADMIN.all()]
            .concat();
    for setting in in_root {
        let named = |(path, file)| NamedFile::read(path, file);
        files.extend(file(&raw.root, setting)?.map(named));
    }
    for pool in &raw.pools {
        let model = pool.section.find(&key::POOL_MODEL)?;
        for setting in WORKERS.all() {
            let named = |(path, file)| NamedFile::read(of_pool(&setting.row, path, model.as_ref()), file);
            files.extend(file(&pool.section, setting)?.map(named));
        }
    }
    Ok(files)
}

/// A setting of a pool, called as in the report of a reload: by its model, which stays where the pool's place may not.
fn of_pool(row: &Row, path: String, model: Option<&Name>) -> String {
    model.map_or(path, |model| format!("{} (of {})", row.key, model.0))
}

fn found(section: &RawSection, files: &Files) -> Result<[Option<PathBuf>; 3], Problem> {
    let find = |setting| section.find(setting).map(|found| found.map(|FilePath(file)| file));
    Ok([find(files.certificate)?, find(files.key)?, find(files.ca)?])
}

fn file(section: &RawSection, setting: &Setting<FilePath>) -> Result<Option<(String, PathBuf)>, Problem> {
    Ok(section.find(setting)?.map(|FilePath(file)| (section.path_of(&setting.row), file)))
}

fn text(path: &str, file: &PathBuf) -> Result<String, Problem> {
    std::fs::read_to_string(file)
        .map_err(|error| Problem::Rule(format!("{path} is {file:?}, which cannot be read: {error}")))
}

fn unusable(path: &str, file: &PathBuf, error: impl std::fmt::Display) -> Problem {
    Problem::Rule(format!("{path} is {file:?}, which cannot be used: {error}"))
}

fn incomplete(table: &str) -> Problem {
    Problem::Rule(format!("{table} needs cert and key, each the path of a PEM file; set both or neither"))
}

fn refused(table: &str, error: &TlsError) -> Problem {
    Problem::Rule(format!("{table}: {error}"))
}

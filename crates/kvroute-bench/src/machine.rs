//! The machine that the figures come from: a figure without it means nothing.

use std::fs;
use std::path::Path;

/// One line: processor, cores, memory, system.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let memory = field("/proc/meminfo", "MemTotal").and_then(|total| kibibytes(&total));
    let memory = memory.map_or_else(|| "?".to_owned(), |bytes| format!("{} GiB", bytes >> 30));
    let system = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processor}, {cores} cores, {memory}, Linux {}", system.trim())
}

/// Threads that ran or wanted to, a minute, five and fifteen minutes on average: what else the machine did.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Bytes of this process that are in memory; `None` where the system does not say.
pub(crate) fn resident_bytes() -> Option<u64> {
    resident("/proc/self/status")
}

/// The same of another process.
pub(crate) fn resident_bytes_of(process: u32) -> Option<u64> {
    resident(format!("/proc/{process}/status"))
}

/// File descriptors that this process, and what it starts, may have open; `None` where the system does not say.
pub(crate) fn open_files_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

fn resident(status: impl AsRef<Path>) -> Option<u64> {
    field(status, "VmRSS").and_then(|size| kibibytes(&size))
}

fn field(path: impl AsRef<Path>, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kibibytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

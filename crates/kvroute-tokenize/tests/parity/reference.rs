//! The reference libraries, in one Python process.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::peers;

/// Python's answers to all lines of work, in order; lines that only set the work up have none.
pub(crate) fn answers(work: &[Value]) -> Option<Vec<Value>> {
    let python = peers::peer("KVROUTE_REFERENCE_PYTHON")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/reference.py");
    let mut child = Command::new(&python)
        .arg(script)
        .envs([("TZ", "UTC"), ("PYTHONUTF8", "1"), ("TOKENIZERS_PARALLELISM", "false")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", python.display()));
    let mut lines: String = work.iter().map(|line| format!("{line}\n")).collect();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        // A Python that ended early says why on its standard error.
        let _ = input.write_all(std::mem::take(&mut lines).as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

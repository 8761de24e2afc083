use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// What a log with these fields looks like, without time.
fn written(is_terminal: bool, log: impl FnOnce()) -> String {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .without_time()
        .with_target(false)
        .with_ansi(is_terminal)
        .fmt_fields(LineFields)
        .with_writer(written.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, log);
    let bytes = written.0.lock().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_line_has_its_message_and_its_values_by_name() {
    let absent: Option<u64> = None;
    let line = written(false, || {
        tracing::info!(text = "a \"b\"", number = 3, share = 0.5, is_so = true, absent, shown = %"x y", "it is so");
    });
    assert_eq!(line, " INFO it is so text=\"a \\\"b\\\"\" number=3 share=0.5 is_so=true shown=x y\n");
}

#[test]
fn a_line_break_in_a_value_was_a_line_of_the_log() {
    let evil = "m\r\n2026-01-01T00:00:00Z  INFO kvroute::access: request outcome=\"completed\"\u{2028}x";
    let line =
        written(false, || tracing::info!(text = evil, shown = %evil, debugged = ?Some(evil), "{evil}"));
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(!line.contains('\r') && !line.contains('\u{2028}'), "{line}");
    assert_eq!(line.matches("m\\r\\n2026").count(), 4, "{line}");
}

#[test]
fn an_escape_sequence_in_a_value_was_obeyed_by_the_terminal() {
    let evil = "\u{1b}[2J\u{9b}31m\u{7}\u{8}\u{202e}\t\0";
    for is_terminal in [false, true] {
        let line = written(is_terminal, || tracing::info!(text = evil, shown = %evil, "{evil}"));
        let own = line.matches(ITALIC).count() + line.matches(DIM).count() + line.matches(PLAIN).count();
        let colour = line.matches("\u{1b}[32m").count();
        assert_eq!(line.matches('\u{1b}').count(), own + colour, "{line:?}");
        assert_eq!(is_terminal, own > 0);
        let obeyed = |character: &char| is_obeyed(*character) && !matches!(character, '\u{1b}' | '\n');
        assert_eq!(line.chars().filter(obeyed).count(), 0, "{line:?}");
        assert_eq!(line.matches("\\u{1b}[2J\\u{9b}31m").count(), 3, "{line:?}");
    }
}

#[test]
fn values_of_a_span_are_harmless_too() {
    let line = written(false, || {
        let span = tracing::info_span!("request", model = %"a\nb", later = tracing::field::Empty);
        span.record("later", tracing::field::display("c\nd"));
        span.in_scope(|| tracing::info!("inside"));
    });
    assert_eq!(line, " INFO request{model=a\\nb later=c\\nd}: inside\n");
}

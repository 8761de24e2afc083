use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const GOOD: &str = r#"{"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]}"#;

fn read(text: &str) -> Result<Trace, TraceError> {
    read_mooncake(text.as_bytes(), None)
}

fn message(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn a_line_becomes_a_request_and_unknown_fields_are_ignored() {
    let line = r#"{"timestamp": 12.5, "input_length": 513, "output_length": 2, "hash_ids": [4, 5], "x": {}}"#;
    let trace = read(&format!("{line}\n\n")).unwrap();
    assert_eq!(trace.block_size.get(), 512);
    assert_eq!(
        trace.requests,
        [TraceRequest {
            at: Duration::from_micros(12_500),
            input: Tokens::new(513),
            output: Tokens::new(2),
            blocks: vec![4, 5],
        }]
    );
    assert_eq!(trace.requests[0].complete_blocks(trace.block_size), [4]);
}

#[test]
fn a_prompt_that_ends_on_a_block_boundary_has_no_partial_block() {
    let line = r#"{"timestamp": 0, "input_length": 1024, "output_length": 2, "hash_ids": [4, 5]}"#;
    assert_eq!(read(line).unwrap().requests[0].complete_blocks(MOONCAKE_BLOCK_SIZE), [4, 5]);
}

#[test]
fn requests_come_in_the_order_of_arrival_and_the_limit_counts_lines_of_the_file() {
    let earlier = GOOD.replace("3000", "1");
    let text = format!("{GOOD}\n{earlier}\n{GOOD}\n");
    let times = |trace: &Trace| trace.requests.iter().map(|r| r.at.as_millis()).collect::<Vec<_>>();
    assert_eq!(times(&read(&text).unwrap()), [1, 3000, 3000]);
    assert_eq!(times(&read_mooncake(text.as_bytes(), Some(2)).unwrap()), [1, 3000]);
}

#[test]
fn lines_behind_the_limit_are_not_read() {
    let text = format!("{GOOD}\nnot json\n");
    assert_eq!(read_mooncake(text.as_bytes(), Some(1)).unwrap().requests.len(), 1);
}

#[test]
fn each_fault_names_its_line_and_what_is_wrong() {
    let second = |line: &str| message(&format!("{GOOD}\n{line}\n"));
    let not_json = second("{oops");
    assert!(
        not_json.starts_with("line 2: not a request of a Mooncake trace: key must be a string"),
        "{not_json}"
    );
    let missing = second(r#"{"timestamp": 0, "input_length": 1, "output_length": 1}"#);
    assert!(missing.contains("missing field `hash_ids`"), "{missing}");
    assert_eq!(
        second(&GOOD.replace("600", "0")),
        "line 2: input_length is 0; a prompt has at least one token"
    );
    assert_eq!(
        second(&GOOD.replace("600", "1025")),
        "line 2: hash_ids has 2 ids, but input_length 1025 needs 3 blocks of 512 tokens, \
         the partial last one included"
    );
    assert_eq!(
        second(&GOOD.replace("3000", "-1")),
        "line 2: timestamp is -1; it must be milliseconds since the start of the trace"
    );
    let negative = second(&GOOD.replace("7", "-7"));
    assert!(negative.contains("expected u64"), "{negative}");
}

#[test]
fn a_trace_without_requests_says_what_a_line_looks_like() {
    assert!(message(" \n\n").starts_with("the trace holds no request; a line is {\"timestamp\": ms"));
}

#[test]
fn a_file_is_read_plain_or_compressed_and_a_cut_one_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{GOOD}\n").repeat(2000);
    let plain = folder.path().join("trace.jsonl");
    std::fs::write(&plain, &text).unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    let packed = folder.path().join("trace.without-gz-in-its-name");
    std::fs::write(&packed, &compressed).unwrap();
    assert_eq!(read_mooncake_file(&packed, None).unwrap(), read_mooncake_file(&plain, None).unwrap());

    let cut = folder.path().join("cut.gz");
    std::fs::write(&cut, &compressed[..compressed.len() / 2]).unwrap();
    let error = read_mooncake_file(&cut, None).unwrap_err().to_string();
    assert!(error.starts_with("line ") && error.contains("cannot be read"), "{error}");

    let absent = read_mooncake_file(&folder.path().join("absent"), None).unwrap_err().to_string();
    assert!(absent.starts_with("cannot open trace ") && absent.contains("absent: No such file"), "{absent}");
}

#[test]
fn the_shipped_sample_of_the_conversation_trace_has_its_known_shape() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mooncake-conversation-1000.jsonl.gz");
    let trace = read_mooncake_file(&sample, None).unwrap();
    assert_eq!(trace.requests.len(), 1000);
    assert!(trace.requests.iter().all(|request| request.blocks[0] == 0), "all share the system prompt");
    assert_eq!(trace.input().get(), SAMPLE_INPUT);
}

/// Counted over the file by other means than this reader.
const SAMPLE_INPUT: u64 = 13_732_944;

use super::*;

const STANDARD: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

fn otlp(text: &str, environment: &[(&str, &str)], words: &[&str]) -> Option<String> {
    load_all(text, environment, words).unwrap().telemetry.otlp
}

#[test]
fn requests_leave_lines_of_text_and_nothing_is_exported_unless_somebody_says_so() {
    let loaded = load_all(WORKER, &[], &[]).unwrap();
    let Telemetry { access, format, otlp } = loaded.telemetry;
    assert_eq!((access, format, otlp), (true, LogFormat::Text, None));
    assert!((loaded.config.router.trace_sample - 1.0).abs() < f64::EPSILON);
}

#[test]
fn every_key_of_log_and_traces_arrives() {
    let text = format!(
        "{WORKER}[log]\naccess = false\nformat = \"json\"\n[tracing]\notlp = \"http://a:1\"\nsample = 0.25\n"
    );
    let loaded = load_all(&text, &[], &[]).unwrap();
    let Telemetry { access, format, otlp } = loaded.telemetry;
    assert_eq!((access, format, otlp.as_deref()), (false, LogFormat::Json, Some("http://a:1")));
    assert!((loaded.config.router.trace_sample - 0.25).abs() < f64::EPSILON);
}

#[test]
fn the_standards_variable_is_over_the_file_and_under_all_else() {
    let file = format!("{WORKER}[tracing]\notlp = \"http://file:1\"\n");
    let (standard, own) = ((STANDARD, "http://standard:2"), ("KVROUTE_TRACING_OTLP", "http://own:3"));
    let url = |name: &str| Some(format!("http://{name}"));
    assert_eq!(otlp(&file, &[], &[]), url("file:1"));
    assert_eq!(otlp(&file, &[standard], &[]), url("standard:2"));
    assert_eq!(otlp(&file, &[own, standard], &[]), url("own:3"));
    assert_eq!(otlp(&file, &[own, standard], &["--set", "tracing.otlp=http://flag:4"]), url("flag:4"));
    assert_eq!(otlp(WORKER, &[standard, ("KVROUTE_TRACING_OTLP", "off")], &[]), None);
    assert_eq!(otlp(&file, &[(STANDARD, "")], &[]), url("file:1"), "empty means unset");
    assert_eq!(load_all(WORKER, &[(STANDARD, "")], &[]).unwrap().warnings, [""; 0]);
}

#[test]
fn a_standards_variable_that_means_what_this_program_cannot_do_is_no_reason_not_to_serve() {
    let environment = [(STANDARD, "https://collector:4317")];
    let loaded = load_all(WORKER, &environment, &[]).unwrap();
    assert_eq!(loaded.telemetry.otlp, None);
    let [warning] = loaded.warnings.as_slice() else { panic!("{:?}", loaded.warnings) };
    for part in ["https://collector:4317", STANDARD, "is ignored", "KVROUTE_TRACING_OTLP", "http:// address"]
    {
        assert!(warning.contains(part), "{part} not in {warning}");
    }
    let own = load_all(WORKER, &[("KVROUTE_TRACING_OTLP", "https://collector:4317")], &[]).unwrap_err();
    assert!(own.to_string().contains("KVROUTE_TRACING_OTLP"), "{own}");
}

#[test]
fn misspelt_variables_of_log_and_traces_earn_a_warning() {
    let environment = [("KVROUTE_LOG_ACESS", "1"), ("KVROUTE_TRACING_SAMPEL", "1")];
    let warnings = load_all(WORKER, &environment, &[]).unwrap().warnings;
    assert!(warnings[0].contains("KVROUTE_LOG_ACCESS") && warnings[1].contains("KVROUTE_TRACING_SAMPLE"));
}

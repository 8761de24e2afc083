use super::*;

fn by_load() -> impl Iterator<Item = Endpoint> {
    Endpoint::ALL.into_iter().filter(|endpoint| !endpoint.generates())
}

fn read(endpoint: Endpoint, body: &str) -> Result<ClientRequest, RequestError> {
    ClientRequest::parse(endpoint, Bytes::copy_from_slice(body.as_bytes()))
}

#[test]
fn nothing_but_the_model_is_judged_where_load_decides() {
    let odd = r#"{"model":"m","input":["a",1.50],"stream":"yes","n":-1,"cache_salt":7,"max_tokens":"x","stream_options":1}"#;
    for endpoint in by_load() {
        let request = read(endpoint, odd).unwrap();
        assert_eq!((request.model.as_deref(), request.stream, request.choices), (Some("m"), false, 1));
        assert!(!request.lacks_usage() && !request.lacks_token_ids() && !request.prompt_list);
        assert_eq!(
            request.upstream_body(INJECT).to_bytes(),
            odd.as_bytes(),
            "the body is passed on as it is"
        );
        let Prompt::Foreign(input) = &request.prompt else { panic!("{:?}", request.prompt) };
        assert_eq!(input.as_str(), r#"["a",1.50]"#);
    }
}

#[test]
fn an_alias_is_all_that_changes_in_the_body() {
    for endpoint in by_load() {
        let request = read(endpoint, r#"{"query": "q" , "model" :"alias","documents":["d"]}"#).unwrap();
        let edits = UpstreamEdits { model: Some("m"), ..UpstreamEdits::default() };
        assert_eq!(
            request.upstream_body(edits).to_bytes(),
            &br#"{"query": "q" , "model" :"m","documents":["d"]}"#[..]
        );
    }
}

#[test]
fn what_is_no_json_object_or_names_no_model_is_refused_here() {
    for endpoint in by_load() {
        assert_refused(read(endpoint, r#"{"model":1}"#), "model", "model is a number; send a string");
        assert!(read(endpoint, "[]").is_err() && read(endpoint, r#"{"input":}"#).is_err());
        assert_eq!(read(endpoint, "{}").unwrap().prompt.count(), 1, "the engine judges the rest");
    }
}

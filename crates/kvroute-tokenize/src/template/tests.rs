use proptest::prelude::*;

use super::*;
use crate::tree::Tree;

fn compile(templates: &[(&str, &str)]) -> Result<ChatTemplates, String> {
    let sources = templates.iter().map(|(name, source)| ((*name).to_owned(), (*source).to_owned()));
    let special_tokens =
        vec![("bos_token".to_owned(), Value::from("<s>")), ("eos_token".to_owned(), Value::from("</s>"))];
    ChatTemplates::compile(sources.collect(), special_tokens)
}

fn input(json: &str) -> TemplateInput {
    let Tree::Map(mut chat) = Tree::parse(json).unwrap() else { panic!("no object") };
    let mut part = |name| chat.take(name).map_or_else(|| Value::from(()), Value::from);
    TemplateInput {
        messages: part("messages"),
        tools: part("tools"),
        documents: Value::from(()),
        add_generation_prompt: true,
        arguments: Vec::new(),
    }
}

fn render(source: &str, json: &str) -> Result<String, String> {
    compile(&[("default", source)])?.render("default", input(json))
}

#[test]
fn the_language_is_rendered_as_python_renders_it() {
    let rendered = render(
        include_str!("../../tests/python/features.jinja"),
        include_str!("../../tests/python/features.json"),
    );
    assert_eq!(rendered.unwrap(), include_str!("../../tests/python/features.txt"));
}

#[test]
fn a_template_that_raises_is_quoted() {
    let source =
        "a\n{% if messages[0].role != 'user' %}{{ raise_exception('only users speak here') }}{% endif %}";
    assert_eq!(
        render(source, r#"{"messages":[{"role":"tool"}]}"#).unwrap_err(),
        "the chat template refused the request: only users speak here (line 2 of the template)"
    );
    assert_eq!(render(source, r#"{"messages":[{"role":"user"}]}"#).unwrap(), "a\n");
}

#[test]
fn a_template_that_does_not_compile_names_the_line() {
    let error = compile(&[("default", "ok\n{% if %}")]).unwrap_err();
    assert!(error.starts_with("chat template \"default\" does not compile: "), "{error}");
    assert!(error.ends_with("(line 2 of the template)"), "{error}");
}

#[test]
fn endless_recursion_is_an_error() {
    let source = "{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}";
    assert!(render(source, "{}").unwrap_err().contains("recursion"));
}

#[test]
fn what_only_jinja_escapes_is_left_to_the_engine() {
    let error = compile(&[("default", "{{ 'a' | safe + messages[0].content }}")]).unwrap_err();
    assert!(error.contains("let the engine tokenize"), "{error}");
    assert!(compile(&[("default", "{{ 'a' | safe }}{{ 'b' + 'c' }}")]).is_ok());
}

#[test]
fn lists_print_as_in_python_wherever_text_is_made_of_them() {
    let source = "{% set c = messages[0].content %}{{ c }}|{{ c | trim }}|{{ 'x' ~ c }}|{{ c | string | length }}|{{ messages[0].n | string }}";
    let json = r#"{"messages":[{"content":[{"t":"it's\u200d"},[null,1e16]],"n":1e16}]}"#;
    let list = r#"[{'t': "it's\u200d"}, [None, 1e+16]]"#;
    assert_eq!(render(source, json).unwrap(), format!("{list}|{list}|x{list}|{}|1e+16", list.len()));
}

#[test]
fn nothing_is_no_list() {
    let source = "{{ tools is iterable }}{{ tools is sequence }}{{ messages is iterable }}{{ messages is sequence }}{{ 'a' is iterable }}{{ 7 is iterable }}";
    assert_eq!(render(source, r#"{"messages":[]}"#).unwrap(), "FalseFalseTrueTrueTrueFalse");
}

#[test]
fn white_space_is_what_python_calls_so() {
    let source = "{{ messages[0] | trim }}|{{ messages[0].strip() }}|{{ messages[0].lstrip() }}|{{ messages[0].rstrip() }}|{{ messages[0].split() }}";
    let rendered = render(source, r#"{"messages":["\u001f a\u001cb \u00a0"]}"#).unwrap();
    assert_eq!(rendered, "a\u{1c}b|a\u{1c}b|a\u{1c}b \u{a0}|\u{1f} a\u{1c}b|['a', 'b']");
}

#[test]
fn a_template_without_end_is_an_error() {
    let endless = "{% for i in range(99999) %}{% for j in range(99999) %}{{ ('x' * 99999) | length }}{% endfor %}{% endfor %}";
    assert_eq!(
        render(endless, "{}").unwrap_err(),
        "the chat template refused the request: it takes more steps or memory than any chat needs; repair its loops \
         (line 1 of the template)"
    );
    assert!(render("{{ 'x' * 4000000000 }}", "{}").unwrap_err().contains("more steps or memory"));
}

#[test]
fn tools_choose_the_template_that_is_made_for_them() {
    let both = compile(&[("default", "d"), ("tool_use", "t")]).unwrap();
    assert_eq!(both.choose(false).unwrap().0, "default");
    assert_eq!(both.choose(true).unwrap().0, "tool_use");
    let one = compile(&[("default", "d")]).unwrap();
    assert_eq!(one.choose(true).unwrap().0, "default");
    let none = compile(&[("rag", "r"), ("tool_use", "t")]).unwrap();
    assert_eq!(
        none.choose(false).unwrap_err(),
        "no chat template named \"default\", only rag, tool_use; name one so"
    );
}

#[test]
fn arguments_win_over_special_tokens() {
    let templates =
        compile(&[("default", "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}")]).unwrap();
    let mut with_argument = input("{}");
    with_argument.arguments.push(("eos_token".to_owned(), Value::from("!")));
    assert_eq!(templates.render("default", with_argument).unwrap(), "<s>!False");
}

#[test]
fn what_engines_read_out_of_a_template_is_read() {
    let traits = TemplateTraits::of("{% if m.role == 'developer' %}{% for p in content %}");
    assert!(traits.knows_developer);
    assert_eq!(traits.content_format, ContentFormat::Parts);
    let plain = TemplateTraits::of("a developer reads {{ content }}");
    assert!(!plain.knows_developer);
    assert_eq!(plain.content_format, ContentFormat::Text);
}

proptest! {
    #[test]
    fn no_template_text_panics(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "{%", "%}", "{{", "}}", "{#", "#}", "-", "for m in messages", "set x = ", "macro f(", "content", "'",
                "\"", "\\", "[", "]", "(", ")", ":", "|", ".", ",", " ", "é", "generation", "endfor",
            ]),
            0..24,
        ),
    ) {
        let source = pieces.concat();
        let _ = TemplateTraits::of(&source);
        let _ = compile(&[("default", &source)]);
    }
}

use super::super::ParityCase;
use super::*;

/// As tokens are that begin a text.
fn is_special(id: TokenId) -> bool {
    id == 1
}

fn case(kind: CaseKind, ours: &[TokenId], theirs: &[TokenId]) -> ParityCase {
    let name = match kind {
        CaseKind::PlainText => "plain text",
        CaseKind::Text => "code",
        CaseKind::PlainChat => "chat",
        CaseKind::Chat => "tools",
    };
    let text = |ids: &[TokenId]| format!("{ids:?}");
    let outcome = match Difference::between(ours, theirs, text, is_special) {
        None => Outcome::Equal,
        Some(difference) => Outcome::Differs(difference),
    };
    ParityCase { name, kind, outcome }
}

fn causes(cases: Vec<ParityCase>) -> Vec<(Cause, Vec<&'static str>)> {
    let check = ParityCheck { cases, template_problem: None };
    check.faults().into_iter().map(|fault| (fault.cause, fault.names)).collect()
}

#[test]
fn the_first_position_is_named_with_both_ids() {
    let found = Difference::between(&[1, 2, 3], &[1, 2, 9, 3], |ids| format!("{ids:?}"), is_special).unwrap();
    assert_eq!((found.position, found.shape), (2, Shape::Other));
    assert_eq!((found.ours, found.theirs), (Some((3, "[3]".to_owned())), Some((9, "[9]".to_owned()))));
    let found = Difference::between(&[1], &[1, 2], |_| String::new(), is_special).unwrap();
    assert_eq!((found.position, found.ours), (1, None));
    assert_eq!(Difference::between(&[1, 2], &[1, 2], |_| String::new(), is_special), None);
}

#[test]
fn one_id_more_at_the_beginning_is_no_other_tokenizer() {
    let cases =
        || vec![case(CaseKind::PlainText, &[5, 6], &[1, 5, 6]), case(CaseKind::PlainChat, &[7], &[1, 7])];
    assert_eq!(causes(cases()), [(Cause::MissingBegin, vec!["plain text", "chat"])]);
    let reversed =
        vec![case(CaseKind::PlainText, &[1, 5, 6], &[5, 6]), case(CaseKind::PlainChat, &[7], &[7])];
    assert_eq!(causes(reversed), [(Cause::ExtraBegin, vec!["plain text"])]);
    let beside = cases().into_iter().chain([case(CaseKind::Chat, &[7, 8], &[7, 9])]).collect();
    assert_eq!(
        causes(beside),
        [(Cause::MissingBegin, vec!["plain text", "chat"]), (Cause::Preparation, vec!["tools"])]
    );
}

/// A template that writes a line break in front of the token that begins a text.
#[test]
fn text_in_front_of_the_first_token_is_the_templates_doing() {
    let ours =
        vec![case(CaseKind::PlainText, &[5, 6], &[5, 6]), case(CaseKind::PlainChat, &[9, 1, 7], &[1, 7])];
    assert_eq!(causes(ours), [(Cause::OtherTemplate, vec!["chat"])]);
    let theirs = vec![case(CaseKind::PlainChat, &[1, 7], &[9, 1, 7])];
    assert_eq!(causes(theirs), [(Cause::OtherTemplate, vec!["chat"])]);
}

#[test]
fn plain_words_that_differ_explain_everything() {
    let cases = vec![
        case(CaseKind::PlainText, &[5, 6], &[5, 7]),
        case(CaseKind::PlainChat, &[5, 6], &[1, 5, 6]),
        case(CaseKind::Chat, &[5], &[6]),
    ];
    assert_eq!(causes(cases), [(Cause::OtherTokenizer, vec!["plain text", "chat", "tools"])]);
}

#[test]
fn chats_that_differ_where_text_does_not_have_another_template() {
    let chats = |plain: TokenId| {
        vec![
            case(CaseKind::PlainText, &[5], &[5]),
            case(CaseKind::PlainChat, &[5], &[plain]),
            case(CaseKind::Chat, &[5], &[6]),
        ]
    };
    assert_eq!(causes(chats(6)), [(Cause::OtherTemplate, vec!["chat", "tools"])]);
    assert_eq!(causes(chats(5)), [(Cause::Preparation, vec!["tools"])]);
}

#[test]
fn what_is_equal_has_no_fault_and_what_was_not_compared_is_named() {
    assert_eq!(causes(vec![case(CaseKind::PlainText, &[5], &[5])]), []);
    let unsupported = ParityCase { name: "chat", kind: CaseKind::PlainChat, outcome: Outcome::Unsupported };
    let check = ParityCheck { cases: vec![unsupported], template_problem: None };
    assert!(check.is_unsupported() && check.faults().is_empty());
}

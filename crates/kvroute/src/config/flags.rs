//! The flags of `serve`: the short forms that the table names, `--worker`, and `--set` for every other key.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::path::pool_index;
use super::problem::{ConfigError, Problem};
use super::raw::{Origin, RawConfig};
use super::setting::{Flag, Row};
use super::settings::ROWS;
use super::value::described;
use super::{hint, settings};

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServeFlags {
    pub(crate) config: Option<PathBuf>,
    pub(crate) workers: Vec<String>,
    short_forms: Vec<(&'static str, String)>,
    assignments: Vec<String>,
}

/// Applies `--set` and then the short forms, over everything else.
pub(crate) fn apply(flags: &ServeFlags, raw: &mut RawConfig) -> Result<(), ConfigError> {
    for assignment in &flags.assignments {
        assign(assignment, raw)?;
    }
    for (flag, text) in &flags.short_forms {
        if let Some(row) = ROWS.iter().find(|row| row.flag.is_some_and(|known| known.name == *flag)) {
            raw.set_everywhere(row, text, &Origin::ShortForm(flag))?;
        }
    }
    Ok(())
}

/// `KEY=VALUE`; a key of a pool means every pool unless it names one (`pool[1].policy`).
fn assign(assignment: &str, raw: &mut RawConfig) -> Result<(), Problem> {
    let Some((path, text)) = assignment.split_once('=') else {
        return Err(Problem::Rule(format!("--set {assignment}: no '='; write --set KEY=VALUE")));
    };
    let (path, text) = (path.trim(), text.trim());
    let indexed = pool_index(path);
    let row = known_row(path, indexed.as_ref().map_or(path, |(_, key)| key))?;
    let origin = Origin::Flag("--set");
    let Some((index, _)) = indexed else { return raw.set_everywhere(row, text, &origin) };
    let pools = raw.pools.len();
    match raw.pools.get_mut(index) {
        Some(pool) => pool.section.set(row, (row.from_text)(text), origin),
        None => Err(Problem::Rule(format!("--set {path}: no such pool among {pools}, counted from 0"))),
    }
}

fn known_row(path: &str, key: &str) -> Result<&'static Row, Problem> {
    match settings::row(key) {
        Some(row) if row.is_worker() => {
            Err(Problem::Rule(format!("--set {path}: workers are named by the file or by --worker")))
        }
        Some(row) => Ok(row),
        None => Err(Problem::UnknownKey { path: path.to_owned(), hint: hint::for_unknown(key) }),
    }
}

// === impl ServeFlags ===

impl ServeFlags {
    /// As if nothing but `--config` had been typed.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self { config: Some(path.to_owned()), ..Self::default() }
    }
}

impl Args for ServeFlags {
    fn augment_args(command: Command) -> Command {
        let command = command
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .value_hint(clap::ValueHint::FilePath)
                    .help("Configuration file; `kvroute check FILE` tells what is wrong with it"),
            )
            .arg(
                Arg::new("worker")
                    .long("worker")
                    .value_name("URL")
                    .action(ArgAction::Append)
                    .help("Engine to route to, such as http://10.0.0.1:8000; repeat for more"),
            );
        let command = ROWS.iter().filter_map(|row| Some((row, row.flag?))).fold(command, add_short_form);
        command.arg(
            Arg::new("set")
                .long("set")
                .value_name("KEY=VALUE")
                .action(ArgAction::Append)
                .help("Any other key, such as pool.kv.temperature=0.5; repeat for more"),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn add_short_form(command: Command, (row, flag): (&&'static Row, Flag)) -> Command {
    let mut help = described(&first_sentence(row.doc).replace('`', ""), row.choices);
    if let Some(default) = row.default {
        help.push_str(&format!(" [default: {}]", default.trim_matches('"')));
    }
    command.arg(Arg::new(flag.name).long(flag.name).value_name(flag.value_name).help(help))
}

fn first_sentence(doc: &str) -> &str {
    let doc = doc.trim();
    doc.split(". ").next().unwrap_or(doc).trim_end_matches('.')
}

impl FromArgMatches for ServeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let texts = |name: &str| matches.get_many::<String>(name).into_iter().flatten().cloned().collect();
        let short_form = |flag: Flag| Some((flag.name, matches.get_one::<String>(flag.name)?.clone()));
        Ok(Self {
            config: matches.get_one::<PathBuf>("config").cloned(),
            workers: texts("worker"),
            short_forms: ROWS.iter().filter_map(|row| row.flag).filter_map(short_form).collect(),
            assignments: texts("set"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

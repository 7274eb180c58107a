//! Processes that compute cells beside this one.
//!
//! Burn's automatic differentiation has one registry of graphs for a whole process, behind a lock, so
//! threads that train small networks wait for each other. A worker is this program once more, with
//! arguments that make the same cells. Where it comes to them it computes what it is asked for: a line
//! of its input is the place of a cell among all, a line of its output is what became of it. It writes
//! nothing else but errors, and ends with its input.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::{env, process, thread};

use serde::{Deserialize, Serialize};

use crate::error::{INTERRUPTED, Result, TabularError};
use crate::files::checksum;
use crate::parallel;

use super::runner::Progress;
use super::{Cell, Measures, Record};

/// The variable that makes a process a worker: how many threads it has, and for which cells.
const TASK: &str = "BURN_BAYES_WORKER";

/// How many cells are computed at a time, and by whom.
#[derive(Clone, Debug)]
pub struct Crew {
    pub(super) threads: usize,
    /// The program and the arguments of a worker; none where threads of this process compute.
    worker: Option<(PathBuf, Vec<OsString>)>,
}

impl Crew {
    /// Threads of this process.
    pub fn threads(threads: usize) -> Self {
        let worker = None;
        Self { threads, worker }
    }

    /// As many processes, with arguments by which this program makes the same cells.
    pub fn processes(threads: usize, arguments: Vec<OsString>) -> Self {
        let program = env::current_exe().ok();
        let worker = program.map(|program| (program, arguments));
        Self { threads, worker }
    }

    /// As many processes, with this one's own arguments, which read these files once more; threads if a
    /// file is none that gives the same again to another process.
    pub fn of_command<'a>(threads: usize, mut files: impl Iterator<Item = &'a Path>) -> Self {
        let is_of_process = |path: &Path| path.starts_with("/dev") || path.starts_with("/proc");
        match files.all(|path| path.is_file() && !is_of_process(path)) {
            true => Self::processes(threads, env::args_os().skip(1).collect()),
            false => Self::threads(threads),
        }
    }
}

/// The workers of a list of cells; each is started when there is a cell for it.
pub(super) struct Workers<'a> {
    cells: &'a [Cell],
    progress: &'a dyn Progress,
    staff: Mutex<Staff>,
}

#[derive(Debug)]
struct Staff {
    idle: Vec<Worker>,
    /// What starts a worker; none where there are to be no more.
    command: Option<Command>,
}

impl<'a> Workers<'a> {
    /// For those of the cells that are waiting; none if one is computed after the other.
    pub(super) fn new(
        crew: &Crew,
        cells: &'a [Cell],
        waiting: usize,
        progress: &'a dyn Progress,
    ) -> Self {
        let worker = crew.worker.as_ref();
        let command = worker.filter(|_| crew.threads.min(waiting) > 1);
        let command = command.map(|(program, arguments)| {
            let mut command = Command::new(program);
            command.args(arguments);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        });
        let idle = Vec::new();
        let staff = Mutex::new(Staff { idle, command });
        Self {
            cells,
            progress,
            staff,
        }
    }

    /// Computes the cell at this place: in a worker, or in this thread if there is none to be had.
    pub(super) fn compute(&self, place: usize) -> Result<Record> {
        let cell = &self.cells[place];
        let Some(mut worker) = self.take() else {
            return cell.compute();
        };
        let answer = worker.ask(place, cell)?;
        self.staff().idle.push(worker);
        answer.record(cell)
    }

    /// An idle worker, or a new one. Workers are started one after the other, so that none inherits the
    /// pipes of another.
    fn take(&self) -> Option<Worker> {
        let mut staff = self.staff();
        let idle = staff.idle.pop();
        idle.or_else(|| {
            let command = staff.command.as_mut()?;
            command.env(TASK, task(rayon::current_num_threads(), self.cells));
            let error = match Worker::start(command) {
                Ok(worker) => return Some(worker),
                Err(error) => error,
            };
            let program = command.get_program().display();
            self.progress.warn(&format!(
                "{program} cannot be started once more: {error}; threads do its work"
            ));
            staff.command = None;
            None
        })
    }

    fn staff(&self) -> MutexGuard<'_, Staff> {
        self.staff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that waits for a cell, or computes one.
#[derive(Debug)]
struct Worker {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let output = child.stdout.take();
        let output = output.ok_or_else(|| io::Error::other("it has no output"))?;
        let answers = BufReader::new(output);
        Ok(Self { child, answers })
    }

    fn ask(&mut self, place: usize, cell: &Cell) -> Result<Answer> {
        let mut line = String::new();
        let asked = self.child.stdin.as_mut().map_or(Ok(()), |input| {
            input.write_all(format!("{place}\n").as_bytes())
        });
        let heard = asked.and_then(|()| self.answers.read_line(&mut line));
        let key = &cell.key;
        if heard.is_ok() && line.ends_with('\n') {
            return serde_json::from_str(&line).map_err(|error| {
                let line = line.trim_end();
                TabularError::with_code(1, format!("{key}: a process answered `{line}`: {error}"))
            });
        }
        let status = self.child.wait()?;
        if is_interrupted(status) {
            return Err(TabularError::Interrupted("interrupted".into()));
        }
        // A worker that could not come to its cells has said why.
        let code = status.code().and_then(|code| code.try_into().ok());
        Err(TabularError::with_code(
            code.unwrap_or(1),
            format!(
                "{key}: the process that computed it ended, {status}; start the command again, with \
                 fewer `--threads` if memory ran out"
            ),
        ))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // This closes its input, which ends it.
        let _ = self.child.wait();
    }
}

/// Whether a process was asked to end, perhaps before it could hear it.
fn is_interrupted(status: ExitStatus) -> bool {
    /// SIGHUP, SIGINT and SIGTERM.
    #[cfg(unix)]
    const SIGNALS: [i32; 3] = [1, 2, 15];
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return SIGNALS.contains(&signal);
    }
    status.code() == Some(INTERRUPTED.into())
}

/// What became of a cell. Its measures are bits: a number that is read from JSON may differ in its last
/// one.
#[derive(Debug, Deserialize, Serialize)]
enum Answer {
    Found {
        measures: BTreeMap<String, u64>,
        seconds: f64,
    },
    Failed {
        code: u8,
        message: String,
    },
}

impl Answer {
    fn new(found: Result<Record>) -> Self {
        match found {
            Ok(record) => {
                let measures = record.measures.into_iter();
                Self::Found {
                    measures: measures
                        .map(|(name, value)| (name, value.to_bits()))
                        .collect(),
                    seconds: record.seconds,
                }
            }
            Err(failure) => Self::Failed {
                code: failure.code(),
                message: failure.to_string(),
            },
        }
    }

    fn record(self, cell: &Cell) -> Result<Record> {
        match self {
            Self::Found { measures, seconds } => {
                let measures = measures.into_iter();
                let measures = measures.map(|(name, bits)| (name, f64::from_bits(bits)));
                Ok(cell.record(measures.collect::<Measures>(), seconds))
            }
            Self::Failed { code, message } => Err(TabularError::with_code(code, message)),
        }
    }
}

/// Whether this process is a worker.
pub fn is_worker() -> bool {
    env::var_os(TASK).is_some()
}

/// In a worker that was started for these cells, computes what it is asked for until the process ends.
///
/// # Errors
/// If cells are waiting that it was not started for, and if nobody takes an answer.
pub(super) fn serve(cells: &[Cell], waiting: usize) -> Result<()> {
    let Ok(asked) = env::var(TASK) else {
        return Ok(());
    };
    let threads = asked.split(' ').next().and_then(|word| word.parse().ok());
    match threads {
        Some(threads) if asked == task(threads, cells) => {
            parallel::map(threads, 1, |_| answer(cells))?;
            process::exit(0);
        }
        // What was computed before, by others.
        _ if waiting == 0 => Ok(()),
        _ => Err(TabularError::Data(format!(
            "{}: the process that asks for it has other cells; start the command again, and leave the \
             files alone that it reads",
            cells[0].key
        ))),
    }
}

/// Answers line by line.
fn answer(cells: &[Cell]) -> Result<()> {
    let (sender, places) = mpsc::channel();
    thread::spawn(move || {
        let lines = io::stdin().lines().map_while(io::Result::ok);
        for line in lines {
            let _ = sender.send(line);
        }
        // Nobody waits for what is being computed.
        process::exit(0);
    });
    places.into_iter().try_for_each(|line: String| {
        let cell = line.parse().ok().and_then(|place: usize| cells.get(place));
        let cell =
            cell.ok_or_else(|| TabularError::Usage(format!("`{line}` is the place of no cell")))?;
        let answer = Answer::new(cell.compute());
        let answer = serde_json::to_string(&answer).map_err(io::Error::from)?;
        Ok(writeln!(io::stdout(), "{answer}")?)
    })
}

/// For how many threads and which cells a worker is.
fn task(threads: usize, cells: &[Cell]) -> String {
    let lines = cells
        .iter()
        .map(|cell| format!("{}: {}\n", cell.key, cell.settings));
    format!(
        "{threads} {}",
        checksum(lines.collect::<String>().as_bytes())
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::cells::Key;

    fn cells() -> Vec<Cell> {
        let one = |seed| {
            let key = Key {
                case: "case".into(),
                method: "method".into(),
                seed,
            };
            let work = move || Ok(Measures::from([("third".into(), seed as f64 / 3.0)]));
            Cell::new(key, &seed, work).unwrap()
        };
        (0..2).map(one).collect()
    }

    /// What comes of the second cell if a worker is this program.
    fn computed(program: &str, arguments: &[&str]) -> Result<Measures> {
        let arguments = arguments.iter().map(OsString::from).collect();
        let crew = Crew {
            threads: 2,
            worker: Some((program.into(), arguments)),
        };
        let cells = cells();
        let workers = Workers::new(&crew, &cells, cells.len(), &());
        Ok(workers.compute(1)?.measures)
    }

    #[test]
    fn without_processes_threads_compute() {
        let found = computed("/absent/program", &[]).unwrap();
        assert_eq!(found, cells()[1].compute().unwrap().measures);
    }

    #[test]
    fn a_worker_that_ends_or_babbles_is_an_error_of_its_cell() {
        for (program, arguments, code, words) in [
            ("true", &[][..], 1, "exit status: 0"),
            ("sh", &["-c", "exit 3"], 3, "exit status: 3"),
            ("sh", &["-c", "kill -9 $$"], 1, "signal: 9"),
            ("cat", &[], 1, "answered `1`"),
        ] {
            let failure = computed(program, arguments).unwrap_err();
            let message = failure.to_string();
            assert!(message.starts_with("case, method, 1: "), "{message}");
            assert!(message.contains(words), "{message}");
            assert_eq!(failure.code(), code, "{message}");
        }
    }

    #[test]
    fn a_worker_that_is_interrupted_interrupts_the_command() {
        for ending in ["exit 130", "kill -TERM $$"] {
            let failure = computed("sh", &["-c", ending]).unwrap_err();
            assert!(matches!(failure, TabularError::Interrupted(_)), "{failure}");
        }
    }

    #[test]
    fn answers_keep_every_bit_and_every_kind_of_failure() {
        let through = |found: Result<Record>| -> Result<Record> {
            let line = serde_json::to_string(&Answer::new(found)).unwrap();
            let answer: Answer = serde_json::from_str(&line).unwrap();
            answer.record(&cells()[1])
        };
        for exponent in 1..500 {
            let value = (f64::from(exponent) / 7.0).exp();
            let record = cells()[1].record([("measure".into(), value)].into(), 0.5);
            assert_eq!(through(Ok(record.clone())).unwrap(), record);
        }
        for failure in [
            TabularError::Usage("usage".into()),
            TabularError::Data("data".into()),
            TabularError::Numerical("numerical".into()),
            TabularError::System(io::Error::other("system")),
            TabularError::Interrupted("interrupted".into()),
        ] {
            let (text, code) = (failure.to_string(), failure.code());
            let told = through(Err(failure)).unwrap_err();
            assert_eq!((told.to_string(), told.code()), (text, code));
        }
    }

    #[test]
    fn files_that_give_nothing_twice_are_left_to_threads() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let crew = |path| Crew::of_command(2, [file.path(), path].into_iter());
        assert!(crew(file.path()).worker.is_some());
        for path in ["/dev/stdin", "/dev/null", "/proc/self/environ", "/absent"] {
            assert!(crew(Path::new(path)).worker.is_none(), "{path}");
        }
    }

    #[test]
    fn a_task_tells_cells_apart() {
        let cells = cells();
        assert_eq!(task(1, &cells), task(1, &self::cells()));
        assert_ne!(task(1, &cells), task(2, &cells));
        assert_ne!(task(1, &cells), task(1, &cells[1..]));
    }
}

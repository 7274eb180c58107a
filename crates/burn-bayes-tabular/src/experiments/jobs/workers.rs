//! Worker processes that compute jobs.
//!
//! Burn's automatic differentiation has one global lock per process, so threads that train small
//! networks wait for each other. A worker is another process of this program, started with the command
//! `worker`. The first line of its input is a [`Task`], from which it creates the same jobs. Each further
//! line is the index of a job, which the worker answers with a line with the result. It exits at the end
//! of its input.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::{env, process, thread};

use burn_bayes_data::present;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{INTERRUPTED, Result, TabularError};
use crate::files::checksum;
use crate::parallel;

use super::runner::Progress;
use super::{Computed, Job, Record};

/// A description of jobs from which a worker process creates the same jobs.
pub trait Task: Serialize + DeserializeOwned {
    /// The jobs, in the same order in every process.
    ///
    /// # Errors
    /// If the jobs cannot be created.
    fn jobs(&self) -> Result<Vec<Job>>;
}

/// The first line of a worker's input.
#[derive(Debug, Deserialize, Serialize)]
struct Order<T> {
    /// Number of threads of the worker.
    threads: usize,
    /// The checksum that its jobs must have.
    checksum: String,
    task: T,
}

/// The workers that compute jobs: their number, and whether they are processes or threads.
#[derive(Clone, Debug)]
pub struct WorkerPool {
    pub(super) threads: usize,
    /// The worker program and its arguments; `None` for threads of this process.
    worker: Option<(PathBuf, Vec<&'static str>)>,
}

impl WorkerPool {
    /// Threads of this process.
    pub fn threads(threads: usize) -> Self {
        let worker = None;
        Self { threads, worker }
    }

    /// Processes of this program, whose command `worker` must call [`serve`].
    pub fn processes(threads: usize) -> Self {
        let program = env::current_exe().ok();
        let worker = program.map(|program| (program, vec!["worker"]));
        Self { threads, worker }
    }

    /// Processes that read these files again, packed or not; threads if a file cannot be read twice, such as a pipe.
    pub fn of_files<'a>(threads: usize, mut files: impl Iterator<Item = &'a Path>) -> Self {
        let is_of_process = |path: &Path| path.starts_with("/dev") || path.starts_with("/proc");
        match files.all(|path| present(path).is_file() && !is_of_process(path)) {
            true => Self::processes(threads),
            false => Self::threads(threads),
        }
    }
}

/// The workers of a list of jobs; each is started when first needed.
pub(super) struct Workers<'a> {
    jobs: &'a [Job],
    progress: &'a dyn Progress,
    idle_workers: Mutex<IdleWorkers>,
}

#[derive(Debug)]
struct IdleWorkers {
    idle: Vec<Worker>,
    /// The command that starts a worker, and its order without the number of threads; `None` if no more
    /// workers can be started.
    start: Option<(Command, Value)>,
}

impl<'a> Workers<'a> {
    /// Workers for the jobs that are not in the cache; none if the jobs are computed one at a time.
    pub(super) fn new(
        task: &impl Task,
        pool: &WorkerPool,
        jobs: &'a [Job],
        waiting: usize,
        progress: &'a dyn Progress,
    ) -> Self {
        let worker = pool.worker.as_ref();
        let worker = worker.filter(|_| pool.threads.min(waiting) > 1);
        let start = worker.and_then(|(program, arguments)| {
            let mut command = Command::new(program);
            command.args(arguments);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let order = Order {
                threads: 0,
                checksum: checksum_of(jobs),
                task,
            };
            // A path may not be valid UTF-8: then threads compute the jobs.
            let order = serde_json::to_value(order).ok()?;
            Some((command, order))
        });
        let idle = Vec::new();
        let idle_workers = Mutex::new(IdleWorkers { idle, start });
        Self {
            jobs,
            progress,
            idle_workers,
        }
    }

    /// Computes the job with this index in a worker, or in this thread if there are no workers.
    pub(super) fn compute(&self, place: usize) -> Result<Record> {
        let job = &self.jobs[place];
        let Some(mut worker) = self.take() else {
            return job.compute();
        };
        let answer = worker.ask(place, job)?;
        self.idle_workers().idle.push(worker);
        answer.record(job)
    }

    /// An idle worker, or a new one. Workers are started one at a time, so that none inherits the pipes of
    /// another.
    fn take(&self) -> Option<Worker> {
        let mut idle_workers = self.idle_workers();
        let idle = idle_workers.idle.pop();
        idle.or_else(|| {
            let (command, order) = idle_workers.start.as_mut()?;
            order["threads"] = rayon::current_num_threads().into();
            let error = match Worker::start(command, order) {
                Ok(worker) => return Some(worker),
                Err(error) => error,
            };
            let program = command.get_program().display();
            self.progress.warn(&format!(
                "{program} cannot be started as a worker: {error}; using threads instead"
            ));
            idle_workers.start = None;
            None
        })
    }

    fn idle_workers(&self) -> MutexGuard<'_, IdleWorkers> {
        self.idle_workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker process.
#[derive(Debug)]
struct Worker {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(command: &mut Command, order: &Value) -> io::Result<Self> {
        let mut child = command.spawn()?;
        if let Some(input) = &mut child.stdin {
            // If this fails, the first answer will be missing, which is reported.
            let _ = input.write_all(format!("{order}\n").as_bytes());
        }
        let output = child.stdout.take();
        let output = output.ok_or_else(|| io::Error::other("it has no output"))?;
        let answers = BufReader::new(output);
        Ok(Self { child, answers })
    }

    fn ask(&mut self, place: usize, job: &Job) -> Result<Answer> {
        let mut line = String::new();
        let asked = self.child.stdin.as_mut().map_or(Ok(()), |input| {
            input.write_all(format!("{place}\n").as_bytes())
        });
        let heard = asked.and_then(|()| self.answers.read_line(&mut line));
        let key = &job.key;
        if heard.is_ok() && line.ends_with('\n') {
            return serde_json::from_str(&line).map_err(|error| {
                let line = line.trim_end();
                TabularError::with_code(1, format!("{key}: a worker answered `{line}`: {error}"))
            });
        }
        let status = self.child.wait()?;
        if is_interrupted(status) {
            return Err(TabularError::Interrupted("interrupted".into()));
        }
        // A worker that could not create its jobs has printed the reason.
        let code = status.code().and_then(|code| code.try_into().ok());
        Err(TabularError::with_code(
            code.unwrap_or(1),
            format!(
                "{key}: its worker ended, {status}; start the command again, with fewer `--threads` if \
                 memory ran out"
            ),
        ))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // `wait` closes its input, which ends it.
        let _ = self.child.wait();
    }
}

/// Whether a process was interrupted, perhaps before it had installed its signal handler.
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

/// The result of a job.
#[derive(Debug, Deserialize, Serialize)]
enum Answer {
    Found {
        computed: Computed,
        seconds: f64,
    },
    /// A setting is invalid.
    Refused {
        name: String,
        problem: String,
    },
    Failed {
        code: u8,
        message: String,
    },
}

impl Answer {
    fn new(found: Result<Record>) -> Self {
        match found {
            Ok(Record {
                computed, seconds, ..
            }) => Self::Found { computed, seconds },
            Err(TabularError::Setting { name, problem }) => Self::Refused { name, problem },
            Err(failure) => Self::Failed {
                code: failure.code(),
                message: failure.to_string(),
            },
        }
    }

    fn record(self, job: &Job) -> Result<Record> {
        match self {
            Self::Found { computed, seconds } => Ok(job.record(computed, seconds)),
            Self::Refused { name, problem } => Err(TabularError::Setting { name, problem }),
            Self::Failed { code, message } => Err(TabularError::with_code(code, message)),
        }
    }
}

/// Runs the command `worker`: computes the requested jobs until the end of the input.
///
/// # Errors
/// If the task cannot be read or gives other jobs, or an answer cannot be written.
pub fn serve<T: Task>() -> Result<()> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    if !line.ends_with('\n') {
        // The command ended before it had written the task.
        return Ok(());
    }
    let order: Order<T> = serde_json::from_str(&line).map_err(|error| {
        TabularError::Usage(format!(
            "the first line of the input is not a task: {error}"
        ))
    })?;
    let jobs = order.task.jobs()?;
    if order.checksum != checksum_of(&jobs) {
        return Err(TabularError::Data(
            "the jobs of a worker differ from those of the command; start the command again, and do not \
             change its input files"
                .into(),
        ));
    }
    parallel::map(order.threads, 1, |_| answer(&jobs)).map(drop)
}

/// Answers line by line.
fn answer(jobs: &[Job]) -> Result<()> {
    let (sender, places) = mpsc::channel();
    thread::spawn(move || {
        let lines = io::stdin().lines().map_while(io::Result::ok);
        for line in lines {
            let _ = sender.send(line);
        }
        // The result of a running job is no longer needed.
        process::exit(0);
    });
    places.into_iter().try_for_each(|line: String| {
        let job = line.parse().ok().and_then(|place: usize| jobs.get(place));
        let job =
            job.ok_or_else(|| TabularError::Usage(format!("`{line}` is not the index of a job")))?;
        let answer = Answer::new(job.compute());
        let answer = serde_json::to_string(&answer).map_err(io::Error::from)?;
        Ok(writeln!(io::stdout(), "{answer}")?)
    })
}

/// A checksum of the names and settings of jobs.
fn checksum_of(jobs: &[Job]) -> String {
    let lines = jobs
        .iter()
        .map(|job| format!("{}: {}\n", job.key, job.settings));
    checksum(lines.collect::<String>().as_bytes())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::experiments::jobs::{Key, LeftOut};
    use crate::scores::Measures;

    fn jobs() -> Vec<Job> {
        let one = |seed| {
            let key = Key {
                case: "case".into(),
                method: "method".into(),
                seed,
            };
            let work = move || Ok(Measures::from([("third".into(), seed as f64 / 3.0)]));
            Job::new(key, &seed, work).unwrap()
        };
        (0..2).map(one).collect()
    }

    /// A task with these jobs.
    #[derive(Deserialize, Serialize)]
    struct Made;

    impl Task for Made {
        fn jobs(&self) -> Result<Vec<Job>> {
            Ok(jobs())
        }
    }

    /// The result of the second job, with this program as worker.
    fn computed(program: &str, arguments: &[&'static str]) -> Result<Measures> {
        let pool = WorkerPool {
            threads: 2,
            worker: Some((program.into(), arguments.to_vec())),
        };
        let jobs = jobs();
        let workers = Workers::new(&Made, &pool, &jobs, jobs.len(), &());
        Ok(workers.compute(1)?.computed.measures)
    }

    #[test]
    fn without_processes_threads_compute() {
        let found = computed("/absent/program", &[]).unwrap();
        assert_eq!(found, jobs()[1].compute().unwrap().computed.measures);
    }

    #[test]
    fn a_worker_that_ends_or_babbles_is_an_error_of_its_cell() {
        for (program, arguments, code, words) in [
            ("true", &[][..], 1, "exit status: 0"),
            ("sh", &["-c", "exit 3"], 3, "exit status: 3"),
            ("sh", &["-c", "kill -9 $$"], 1, "signal: 9"),
            ("cat", &[], 1, "answered `{"),
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
            answer.record(&jobs()[1])
        };
        for exponent in 1..500 {
            let value = (f64::from(exponent) / 7.0).exp();
            let computed = Computed {
                measures: [("measure".into(), value)].into(),
                row_costs: vec![value],
                left_out: Some(LeftOut {
                    errors: vec![value],
                    new_means: vec![-value],
                }),
            };
            let record = jobs()[1].record(computed, 0.5);
            assert_eq!(through(Ok(record.clone())).unwrap(), record);
        }
        let refused = || TabularError::Setting {
            name: "epochs".into(),
            problem: "is 0".into(),
        };
        let told = through(Err(refused())).unwrap_err();
        assert!(
            matches!(&told, TabularError::Setting { name, problem } if name == "epochs" && problem == "is 0")
        );
        for failure in [
            refused(),
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
        let pool = |path| WorkerPool::of_files(2, [file.path(), path].into_iter());
        assert!(pool(file.path()).worker.is_some());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rows.csv.gz"), "").unwrap();
        let packed = folder.path().join("rows.csv");
        assert!(pool(&packed).worker.is_some());
        for path in ["/dev/stdin", "/dev/null", "/proc/self/environ", "/absent"] {
            assert!(pool(Path::new(path)).worker.is_none(), "{path}");
        }
    }

    #[test]
    fn a_checksum_tells_cells_apart() {
        let jobs = jobs();
        assert_eq!(checksum_of(&jobs), checksum_of(&self::jobs()));
        assert_ne!(checksum_of(&jobs), checksum_of(&jobs[1..]));
    }
}

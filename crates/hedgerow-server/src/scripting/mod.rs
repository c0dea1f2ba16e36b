//! Scripts: their texts, and the Lua states that run them.
//!
//! A script is run by a command ([`crate::commands`]) as a part of its attempt. So it may be run
//! several times until all that it reads is in memory, and has an effect once. A state runs one
//! script at a time; there are as many as scripts that run at once.

mod bits;
mod convert;
mod json;
mod libraries;
mod machine;
mod message_pack;
mod outcome;
mod redis;
mod structs;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha1::{Digest, Sha1};

pub(crate) use libraries::{Library, Registered, Shebang};
pub(crate) use machine::{Ended, Host, Machine, Stopped, Watch};

/// The texts that EVAL has brought and that EVALSHA may name.
const KEPT_OF_EVAL_MAX: usize = 500;
/// The states that wait for a script.
const IDLE_MAX: usize = 8;

/// A script.
#[derive(Debug)]
pub(crate) struct Program {
    /// The SHA-1 of its text, as 40 hexadecimal digits.
    pub(crate) digest: String,
    /// Without the first line if that names the language.
    pub(crate) text: Vec<u8>,
    pub(crate) shebang: Option<Shebang>,
}

#[derive(Default)]
struct Texts {
    by_digest: HashMap<String, Arc<Program>>,
    /// Those that EVAL has brought, the oldest first.
    of_eval: VecDeque<String>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Scripts {
    texts: Mutex<Texts>,
    idle: Mutex<Vec<Machine>>,
    /// Changes when all texts are forgotten, and when functions change.
    epoch: AtomicUsize,
    running: Mutex<Vec<Arc<Watch>>>,
    libraries: Mutex<Arc<Vec<Arc<Library>>>>,
    /// The bytes that idle states take.
    bytes: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn digest(text: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha1::digest(text))
}

impl Scripts {
    /// The script of a text, which is remembered. `keep` remembers it until SCRIPT FLUSH.
    pub(crate) fn add(&self, text: &[u8], keep: bool) -> Result<Arc<Program>, String> {
        let digest = digest(text);
        let mut texts = lock(&self.texts);
        let known = texts.by_digest.get(&digest).cloned();
        let program = match known {
            Some(program) => program,
            None => {
                let (shebang, body) = Shebang::of_script(text)?;
                let program = Arc::new(Program {
                    digest: digest.clone(),
                    text: body,
                    shebang,
                });
                texts.by_digest.insert(digest.clone(), program.clone());
                if !keep {
                    texts.of_eval.push_back(digest.clone());
                }
                program
            }
        };
        if keep {
            texts.of_eval.retain(|it| *it != digest);
        }
        if texts.of_eval.len() > KEPT_OF_EVAL_MAX
            && let Some(oldest) = texts.of_eval.pop_front()
        {
            texts.by_digest.remove(&oldest);
        }
        Ok(program)
    }

    /// The script with this digest, in small or capital letters.
    pub(crate) fn find(&self, digest: &[u8]) -> Option<Arc<Program>> {
        let digest = String::from_utf8_lossy(digest).to_lowercase();
        lock(&self.texts).by_digest.get(&digest).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.texts).by_digest.len()
    }

    /// Forgets all texts.
    pub(crate) fn flush(&self) {
        *lock(&self.texts) = Texts::default();
        self.renew();
    }

    /// Lets no state be used again.
    fn renew(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        lock(&self.idle).clear();
        self.bytes.store(0, Ordering::Relaxed);
    }

    pub(crate) fn libraries(&self) -> Arc<Vec<Arc<Library>>> {
        lock(&self.libraries).clone()
    }

    pub(crate) fn set_libraries(&self, libraries: Vec<Arc<Library>>) {
        *lock(&self.libraries) = Arc::new(libraries);
        self.renew();
    }

    /// A state for one script.
    pub(crate) fn take(&self) -> Result<Machine, String> {
        let idle = lock(&self.idle).pop();
        match idle {
            Some(machine) => {
                self.bytes.fetch_sub(machine.bytes, Ordering::Relaxed);
                Ok(machine)
            }
            None => Machine::new(self.epoch.load(Ordering::Acquire))
                .map_err(|error| format!("ERR cannot make a state for scripts: {error}")),
        }
    }

    /// Keeps a state for later.
    pub(crate) fn give_back(&self, mut machine: Machine) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX
            && machine.epoch == self.epoch.load(Ordering::Acquire)
            && machine.rest()
        {
            self.bytes.fetch_add(machine.bytes, Ordering::Relaxed);
            idle.push(machine);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes that a script runs.
    pub(crate) fn begin(&self, is_function: bool, may_wait: bool) -> Arc<Watch> {
        let watch = Arc::new(Watch::new(is_function, may_wait));
        lock(&self.running).push(watch.clone());
        watch
    }

    pub(crate) fn end(&self, watch: &Arc<Watch>) {
        lock(&self.running).retain(|it| !Arc::ptr_eq(it, watch));
    }

    /// Ends all scripts, or functions, that run. Returns false if there is none.
    pub(crate) fn kill(&self, functions: bool) -> bool {
        let running = lock(&self.running);
        let mut any = false;
        for watch in running.iter().filter(|it| it.is_function == functions) {
            watch.killed.store(true, Ordering::Release);
            any = true;
        }
        any
    }
}

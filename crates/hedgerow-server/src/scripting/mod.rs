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
/// Their bytes: 32 KiB for each of the most, and few scripts have as much.
const BYTES_OF_EVAL_MAX: usize = 16 << 20;
/// The bytes of what SCRIPT LOAD has brought, until SCRIPT FLUSH: those of the longest text.
const BYTES_OF_LOAD_MAX: usize = 64 << 20;
/// The memory of a script beside its text: the digest three times, and its places.
const PROGRAM_BYTES: usize = 256;
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

impl Program {
    fn bytes(&self) -> usize {
        self.text.len() + PROGRAM_BYTES
    }
}

#[derive(Default)]
struct Texts {
    by_digest: HashMap<String, Arc<Program>>,
    /// Those that EVAL has brought, the oldest first.
    of_eval: VecDeque<String>,
    /// The bytes of those.
    bytes_of_eval: usize,
    /// The bytes of the others.
    bytes_of_load: usize,
}

impl Texts {
    /// Remembers a script until newer ones need its room.
    fn remember(&mut self, program: &Arc<Program>) {
        if program.bytes() > BYTES_OF_EVAL_MAX {
            return;
        }
        let digest = program.digest.clone();
        self.bytes_of_eval += program.bytes();
        self.of_eval.push_back(digest.clone());
        self.by_digest.insert(digest, program.clone());
        while self.of_eval.len() > KEPT_OF_EVAL_MAX || self.bytes_of_eval > BYTES_OF_EVAL_MAX {
            let oldest = self.of_eval.pop_front();
            let Some(gone) = oldest.and_then(|it| self.by_digest.remove(&it)) else {
                break;
            };
            self.bytes_of_eval -= gone.bytes();
        }
    }

    /// Keeps a script until all are forgotten.
    fn keep(&mut self, program: &Arc<Program>) -> Result<(), String> {
        let place = self.of_eval.iter().position(|it| *it == program.digest);
        if place.is_none() && self.by_digest.contains_key(&program.digest) {
            return Ok(());
        }
        let bytes = self.bytes_of_load + program.bytes();
        if bytes > BYTES_OF_LOAD_MAX {
            return Err(format!(
                "ERR the scripts of SCRIPT LOAD take more than {BYTES_OF_LOAD_MAX} bytes: SCRIPT \
                 FLUSH forgets them"
            ));
        }
        self.bytes_of_load = bytes;
        if let Some(place) = place {
            self.of_eval.remove(place);
            self.bytes_of_eval -= program.bytes();
        }
        let digest = program.digest.clone();
        self.by_digest.insert(digest, program.clone());
        Ok(())
    }
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
        let is_known = known.is_some();
        let program = match known {
            Some(program) => program,
            None => {
                let (shebang, text) = Shebang::of_script(text)?;
                Arc::new(Program {
                    digest,
                    text,
                    shebang,
                })
            }
        };
        match keep {
            true => texts.keep(&program)?,
            false if is_known => {}
            false => texts.remember(&program),
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn program(number: usize, bytes: usize) -> Arc<Program> {
        Arc::new(Program {
            digest: number.to_string(),
            text: vec![b'-'; bytes],
            shebang: None,
        })
    }

    #[test]
    fn the_texts_of_eval_are_few_and_short_together() {
        let mut texts = Texts::default();
        (0..1_000).for_each(|number| texts.remember(&program(number, 10)));
        assert_eq!(texts.by_digest.len(), KEPT_OF_EVAL_MAX);
        (1_000..1_040).for_each(|number| texts.remember(&program(number, MIB)));
        let last = |texts: &Texts| {
            let is_there = |number: &usize| texts.by_digest.contains_key(&number.to_string());
            (0..2_000).filter(is_there).collect::<Vec<_>>()
        };
        assert_eq!(last(&texts), (1_025..1_040).collect::<Vec<_>>());
        // One that is too long alone takes no room of others.
        texts.remember(&program(1_040, BYTES_OF_EVAL_MAX));
        assert_eq!(last(&texts), (1_025..1_040).collect::<Vec<_>>());
        assert_eq!(texts.bytes_of_eval, 15 * (MIB + PROGRAM_BYTES));
    }

    #[test]
    fn what_script_load_brings_has_a_bound() {
        let mut texts = Texts::default();
        // EVAL has brought one of them before. It counts once.
        texts.remember(&program(0, MIB));
        for number in (0..63).chain(0..63) {
            texts.keep(&program(number, MIB)).unwrap();
        }
        assert_eq!((texts.bytes_of_eval, texts.of_eval.len()), (0, 0));
        let refused = texts.keep(&program(63, MIB)).unwrap_err();
        assert!(refused.contains("SCRIPT FLUSH"), "{refused}");
        assert_eq!(texts.by_digest.len(), 63);
        // EVAL continues, and takes none of this room.
        (100..200).for_each(|number| texts.remember(&program(number, MIB)));
        assert_eq!(texts.by_digest.len(), 63 + 15);
    }
}

//! Calls: what a thread of Node's pool does for a promise.

use napi::bindgen_prelude::{AsyncTask, Buffer, Either4, Undefined};
use napi::{Env, JsError, Task};

use crate::failure::{Failure, Result, caught};
use crate::handles::{self, Object};

/// The result of a call.
pub enum Answer {
    Nothing,
    Number(f64),
    Bytes(Vec<u8>),
    Text(String),
    /// An object to be given a handle.
    Opened(Object),
}

type Body = Box<dyn FnOnce() -> Result<Answer> + Send>;

/// A function of native code to be called on another thread.
pub struct Call(Option<Body>);

/// Calls a function on a thread of the pool. The promise has its result.
pub(crate) fn later(body: impl FnOnce() -> Result<Answer> + Send + 'static) -> AsyncTask<Call> {
    AsyncTask::new(Call(Some(Box::new(body))))
}

impl Task for Call {
    type Output = Result<Answer>;
    type JsValue = Either4<Undefined, f64, Buffer, String>;

    fn compute(&mut self) -> napi::Result<Result<Answer>> {
        // It is called once.
        Ok(match self.0.take() {
            Some(body) => caught(body),
            None => Ok(Answer::Nothing),
        })
    }

    fn resolve(&mut self, env: Env, output: Result<Answer>) -> napi::Result<Self::JsValue> {
        let settled = output.and_then(|answer| {
            Ok(match answer {
                Answer::Nothing => Either4::A(()),
                Answer::Number(number) => Either4::B(number),
                Answer::Bytes(bytes) => Either4::C(bytes.into()),
                Answer::Text(text) => Either4::D(text),
                Answer::Opened(object) => Either4::B(handles::insert(object)?),
            })
        });
        settled.map_err(|failure| rejection(env, failure))
    }
}

/// An error whose object has the code of a failure.
fn rejection(env: Env, failure: Failure) -> napi::Error {
    JsError::from(napi::Error::from(failure))
        .into_unknown(env)
        .into()
}

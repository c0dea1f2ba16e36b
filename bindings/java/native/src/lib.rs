//! The native part of the Java binding: what the native methods of `io.hedgerow` call.
//!
//! Java holds handles, never pointers, so no call with a wrong one can do harm. A failure becomes a
//! Java exception, and so does a panic. Many entries cross in one call: as one array of bytes, in
//! the format of [`packed`].
//!
//! No thread of the engine calls Java. A Java thread takes the results of asynchronous and of long
//! calls ([`calls`]).

#![allow(
    clippy::unit_arg,
    reason = "`Ok(call?)` makes a failure of an error of the engine"
)]

/// Defines native methods: functions that Java finds by their names. The body gets an
/// [`Env`](crate::env::Env), and returns a result whose failure becomes an exception.
macro_rules! native {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($env:ident $(, $argument:ident: $type:ty)*) -> $answer:ty $body:block
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The Java machine calls it, with arguments as the native method declares them.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "Java finds the function by this name")]
        pub(crate) unsafe extern "system" fn $name(
            env: *mut jni_sys::JNIEnv,
            _this: jni_sys::jobject
            $(, $argument: $type)*
        ) -> $answer {
            // SAFETY: the Java machine made this call and passed the environment.
            unsafe { enter(env, |$env| $body) }
        }
    )*};
}

mod backups;
mod batch;
mod calls;
mod database;
mod env;
mod keyspace;
mod loads;
mod objects;
mod packed;
mod reads;
mod scan;
mod writes;

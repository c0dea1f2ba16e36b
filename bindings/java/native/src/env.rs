//! A safe face of JNI: the few functions of the Java machine that this library calls.
//!
//! An object that Java passes is good until the native call ends, and so is an [`Env`]. Arrays and
//! buffers are copied, because other Java threads may write to them meanwhile.

use std::marker::PhantomData;
use std::sync::OnceLock;

use engine::ErrorKind;
use hedgerow_bindings::{Failure, run};
use jni_sys::{
    JNI_VERSION_1_6, JNIEnv, JNIInvokeInterface__1_4, JNINativeInterface__1_6, JavaVM, jbyteArray,
    jclass, jint, jlong, jmethodID, jobject, jsize, jvalue,
};
use smallvec::SmallVec;

/// Bytes that came out of Java. Most keys take no memory of the heap.
pub(crate) type Bytes = SmallVec<[u8; 256]>;

/// The Java machine, seen by the thread of a native call.
pub(crate) struct Env<'a> {
    raw: *mut JNIEnv,
    functions: &'a JNINativeInterface__1_6,
    _call: PhantomData<&'a ()>,
}

/// The method that throws the exception of a failure.
struct Thrower {
    class: jclass,
    method: jmethodID,
}

// SAFETY: a global reference and the identity of a method are good on every thread.
unsafe impl Send for Thrower {}
// SAFETY: as above.
unsafe impl Sync for Thrower {}

static THROWER: OnceLock<Thrower> = OnceLock::new();

/// The result of a native call.
pub(crate) trait Answer {
    /// Returned beside an exception; Java does not see it.
    const NONE: Self;
}

impl Answer for () {
    const NONE: () = ();
}

impl Answer for jint {
    const NONE: jint = 0;
}

impl Answer for jlong {
    const NONE: jlong = 0;
}

impl Answer for jbyteArray {
    const NONE: jbyteArray = std::ptr::null_mut();
}

/// Makes a native call. A failure, also a panic, becomes an exception.
///
/// # Safety
/// `env` is the first argument of a native method that Java is calling.
pub(crate) unsafe fn enter<R: Answer>(
    env: *mut JNIEnv,
    body: impl FnOnce(&Env<'_>) -> Result<R, Failure>,
) -> R {
    // SAFETY: the caller passes what the Java machine passed, which is good for this call.
    let env = unsafe { Env::new(env) };
    run(|| body(&env)).unwrap_or_else(|failure| {
        env.throw(&failure);
        R::NONE
    })
}

impl Env<'_> {
    /// # Safety
    /// `raw` is what the Java machine gave this thread, and is used for one native call.
    unsafe fn new(raw: *mut JNIEnv) -> Env<'static> {
        // SAFETY: it points to the table of functions.
        let table = unsafe { *raw }.cast::<JNINativeInterface__1_6>();
        Env {
            raw,
            // SAFETY: the table is never changed or freed, and Java 11 has all functions of 1.6.
            functions: unsafe { &*table },
            _call: PhantomData,
        }
    }

    /// A copy of the bytes of an array.
    ///
    /// # Errors
    /// `InvalidArgument` if it is null.
    pub(crate) fn bytes(&self, array: jbyteArray) -> Result<Bytes, Failure> {
        if array.is_null() {
            return Err(Failure::invalid("expected an array of bytes, found null"));
        }
        // SAFETY: the signature of the native method says that it is an array of bytes.
        let len = unsafe { (self.functions.GetArrayLength)(self.raw, array) };
        self.bytes_of(array, len)
    }

    /// A copy of the bytes of an array; `None` for null.
    pub(crate) fn optional_bytes(&self, array: jbyteArray) -> Result<Option<Bytes>, Failure> {
        match array.is_null() {
            true => Ok(None),
            false => self.bytes(array).map(Some),
        }
    }

    /// A copy of the first bytes of an array.
    ///
    /// # Errors
    /// `InvalidArgument` if the array is null or shorter.
    pub(crate) fn bytes_of(&self, array: jbyteArray, len: jsize) -> Result<Bytes, Failure> {
        if array.is_null() {
            return Err(too_short(len));
        }
        // SAFETY: the signature of the native method says that it is an array of bytes.
        let found = unsafe { (self.functions.GetArrayLength)(self.raw, array) };
        // Checked before memory is taken: `len` may be anything.
        let count = usize::try_from(len).ok().filter(|_| len <= found);
        let count = count.ok_or_else(|| too_short(len))?;
        let mut bytes = Bytes::new();
        bytes.resize(count, 0);
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: there is room for `len` bytes, and the array has them.
        unsafe { (self.functions.GetByteArrayRegion)(self.raw, array, 0, len, to) };
        Ok(bytes)
    }

    /// A text in UTF-8.
    ///
    /// # Errors
    /// `InvalidArgument` if it is null or not UTF-8.
    pub(crate) fn text(&self, array: jbyteArray) -> Result<String, Failure> {
        let bytes = self.bytes(array)?.into_vec();
        String::from_utf8(bytes).map_err(|e| Failure::invalid(format!("expected UTF-8: {e}")))
    }

    /// A new array with these bytes. If there is no memory for it, an exception is pending and it
    /// is null.
    ///
    /// # Errors
    /// `InvalidArgument` for more bytes than an array can have.
    pub(crate) fn new_bytes(&self, bytes: &[u8]) -> Result<jbyteArray, Failure> {
        let len = jsize::try_from(bytes.len()).map_err(|_| {
            let message = "expected at most 2147483647 bytes for an array, found";
            Failure::invalid(format!("{message} {}", bytes.len()))
        })?;
        // SAFETY: any length may be asked for.
        let array = unsafe { (self.functions.NewByteArray)(self.raw, len) };
        if !array.is_null() {
            let from = bytes.as_ptr().cast();
            // SAFETY: the new array has `len` bytes, and so has `bytes`.
            unsafe { (self.functions.SetByteArrayRegion)(self.raw, array, 0, len, from) };
        }
        Ok(array)
    }

    /// A new array with these bytes; null for `None`.
    pub(crate) fn new_optional(&self, bytes: Option<&[u8]>) -> Result<jbyteArray, Failure> {
        bytes.map_or(Ok(jbyteArray::NONE), |bytes| self.new_bytes(bytes))
    }

    /// A copy of a part of a direct buffer.
    ///
    /// # Errors
    /// `InvalidArgument` if the buffer is not direct or shorter.
    pub(crate) fn buffer_bytes(
        &self,
        buffer: jobject,
        (at, len): (jint, jint),
    ) -> Result<Bytes, Failure> {
        let (from, len) = self.buffer_part(buffer, (at, len))?;
        let mut bytes = Bytes::new();
        bytes.resize(len, 0);
        // SAFETY: `buffer_part` has checked that the buffer has these bytes. It lives until the
        // call ends. The copy is memory of its own.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        Ok(bytes)
    }

    /// Copies bytes to a part of a direct buffer, as many as it has room for.
    ///
    /// # Errors
    /// As [`Env::buffer_bytes`].
    pub(crate) fn fill_buffer(
        &self,
        buffer: jobject,
        (at, len): (jint, jint),
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let (to, len) = self.buffer_part(buffer, (at, len))?;
        let len = len.min(bytes.len());
        // SAFETY: as above; `len` is at most the number of bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
        Ok(())
    }

    /// The address of a part of a direct buffer, and its length.
    fn buffer_part(
        &self,
        buffer: jobject,
        (at, len): (jint, jint),
    ) -> Result<(*mut u8, usize), Failure> {
        let found = |what: &str| {
            Failure::invalid(format!("expected a direct buffer with room, found {what}"))
        };
        if buffer.is_null() {
            return Err(found("null"));
        }
        // SAFETY: the signature of the native method says that it is a buffer.
        let start = unsafe { (self.functions.GetDirectBufferAddress)(self.raw, buffer) };
        // SAFETY: as above.
        let capacity = unsafe { (self.functions.GetDirectBufferCapacity)(self.raw, buffer) };
        let part = usize::try_from(at).ok().zip(usize::try_from(len).ok());
        let (at, len) = part.ok_or_else(|| found("a part of negative length"))?;
        if start.is_null() || usize::try_from(capacity).map_or(true, |all| at + len > all) {
            return Err(found(&format!(
                "one of {capacity} bytes for {len} bytes at {at}"
            )));
        }
        Ok((start.cast::<u8>().wrapping_add(at), len))
    }

    fn is_throwing(&self) -> bool {
        // SAFETY: it may be called at any time.
        unsafe { (self.functions.ExceptionCheck)(self.raw) }
    }

    /// Makes the exception of a failure pending, unless there is one.
    fn throw(&self, failure: &Failure) {
        let Some(thrower) = THROWER.get().filter(|_| !self.is_throwing()) else {
            return;
        };
        let parts = [
            Some(failure.message.as_bytes()),
            failure.keyspace.as_deref().map(str::as_bytes),
            failure.key.as_deref(),
        ];
        let [message, keyspace, key] = parts.map(|part| jvalue {
            l: self.new_optional(part).unwrap_or(jbyteArray::NONE),
        });
        if self.is_throwing() {
            return;
        }
        let kind = jvalue {
            i: kind_number(failure.kind),
        };
        let arguments = [kind, message, keyspace, key];
        // SAFETY: `JNI_OnLoad` has found the method, which takes a number and three arrays.
        unsafe {
            (self.functions.CallStaticVoidMethodA)(
                self.raw,
                thrower.class,
                thrower.method,
                arguments.as_ptr(),
            );
        }
    }
}

fn too_short(len: jsize) -> Failure {
    Failure::invalid(format!("expected an array of at least {len} bytes"))
}

/// The number of a kind in `io.hedgerow.Failure`; 0 is a defect of this library.
pub(crate) fn kind_number(kind: Option<ErrorKind>) -> jint {
    match kind {
        None => 0,
        Some(ErrorKind::InvalidArgument) => 1,
        Some(ErrorKind::Unsupported) => 2,
        Some(ErrorKind::Locked) => 3,
        Some(ErrorKind::NoSpace) => 5,
        Some(ErrorKind::Corruption) => 6,
        Some(ErrorKind::FormatVersion) => 7,
        Some(ErrorKind::Conflict) => 8,
        Some(ErrorKind::Poisoned) => 9,
        Some(ErrorKind::Closed) => 10,
        Some(ErrorKind::Cancelled) => 11,
        Some(ErrorKind::WouldBlock) => 12,
        Some(ErrorKind::Operator) => 13,
        Some(_) => 4,
    }
}

/// Called by the Java machine when it loads the library. Finds the method that throws exceptions.
///
/// # Safety
/// The Java machine calls it.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "Java finds the function by this name")]
pub(crate) unsafe extern "system" fn JNI_OnLoad(vm: *mut JavaVM, _: *mut std::ffi::c_void) -> jint {
    // SAFETY: it points to the table of functions.
    let table = unsafe { *vm }.cast::<JNIInvokeInterface__1_4>();
    // SAFETY: the table is never changed or freed.
    let functions = unsafe { &*table };
    let mut env = std::ptr::null_mut();
    // SAFETY: the place is good for an address.
    let failed = unsafe { (functions.GetEnv)(vm, &raw mut env, JNI_VERSION_1_6) };
    if failed != 0 {
        return -1;
    }
    // SAFETY: the machine has just given it to this thread.
    let env = unsafe { Env::new(env.cast()) };
    match env.find_thrower() {
        Some(thrower) => {
            drop(THROWER.set(thrower));
            JNI_VERSION_1_6
        }
        None => -1,
    }
}

impl Env<'_> {
    /// `None` if an exception is pending.
    fn find_thrower(&self) -> Option<Thrower> {
        let name = c"io/hedgerow/Failure".as_ptr();
        // SAFETY: the name ends with a zero byte.
        let class = unsafe { (self.functions.FindClass)(self.raw, name) };
        if class.is_null() {
            return None;
        }
        // SAFETY: the class was found. The new reference is never deleted.
        let class = unsafe { (self.functions.NewGlobalRef)(self.raw, class) };
        let (name, signature) = (c"raise".as_ptr(), c"(I[B[B[B)V".as_ptr());
        // SAFETY: both texts end with a zero byte.
        let method =
            unsafe { (self.functions.GetStaticMethodID)(self.raw, class, name, signature) };
        (!method.is_null()).then_some(Thrower { class, method })
    }
}

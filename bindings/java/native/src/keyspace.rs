//! Calls of a keyspace that neither read nor write an entry, and asynchronous ones.

use std::time::{Duration, UNIX_EPOCH};

use engine::{Expiry, Keyspace, MemoryAnswer};
use hedgerow_bindings::{stats, text};
use jni_sys::{jbyteArray, jint, jlong};
use serde_json::Value;

use crate::calls;
use crate::env::enter;
use crate::objects;
use crate::packed::Pack;
use crate::reads::{pack_values, unpack_keys};
use crate::scan::{Range, pack_entries};
use crate::writes::expiry;

/// A time for Java in milliseconds since 1970; -1 for never.
fn millis(expiry: Expiry) -> jlong {
    let Expiry::At(at) = expiry else {
        return -1;
    };
    at.duration_since(UNIX_EPOCH)
        .map_or(0, |it| it.as_millis() as jlong)
}

/// A JSON value as pairs of a path and a number, text or truth value: `memory.page_cache`. The
/// place of an object in an array is its name, if it has one.
pub(crate) fn flat(value: &Value) -> Vec<u8> {
    let mut packed = Pack::default();
    flatten(String::new(), value, &mut packed);
    packed.0
}

fn flatten(path: String, value: &Value, packed: &mut Pack) {
    let under = |name: &str| match path.is_empty() {
        true => name.to_owned(),
        false => format!("{path}.{name}"),
    };
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                flatten(under(name), field, packed);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let name = item.get("name").and_then(Value::as_str);
                flatten(under(name.unwrap_or(&index.to_string())), item, packed);
            }
        }
        Value::Null => {}
        Value::Bool(truth) => drop(packed.bytes(path.as_bytes()).u8(3).u8(u8::from(*truth))),
        Value::String(text) => {
            packed.bytes(path.as_bytes()).u8(2).bytes(text.as_bytes());
        }
        Value::Number(number) => {
            packed.bytes(path.as_bytes());
            let whole = number
                .as_u64()
                .map(|it| i64::try_from(it).unwrap_or(i64::MAX));
            match whole.or(number.as_i64()) {
                Some(whole) => packed.u8(0).i64(whole),
                None => packed.u8(1).f64(number.as_f64().unwrap_or(f64::NAN)),
            };
        }
    }
}

native! {
    fn Java_io_hedgerow_Keyspace_name0(env, keyspace: jlong) -> jbyteArray {
        env.new_bytes(objects::find::<Keyspace>(keyspace)?.name().as_bytes())
    }

    fn Java_io_hedgerow_Keyspace_layout0(env, keyspace: jlong) -> jbyteArray {
        let layout = objects::find::<Keyspace>(keyspace)?.layout().to_string();
        env.new_bytes(layout.as_bytes())
    }

    fn Java_io_hedgerow_Keyspace_design0(env, keyspace: jlong) -> jbyteArray {
        let design = objects::find::<Keyspace>(keyspace)?.design().to_string();
        env.new_bytes(design.as_bytes())
    }

    fn Java_io_hedgerow_Keyspace_retune0(
        env, id: jlong, keyspace: jlong, design: jbyteArray
    ) -> () {
        let design = text::design(&env.text(design)?)?;
        let keyspace = objects::keyspace(keyspace)?;
        calls::start(id, move |_| Ok(keyspace.retune(design).map(|()| None)?))
    }

    fn Java_io_hedgerow_Keyspace_setSelfTuning0(_env, keyspace: jlong, on: jint) -> () {
        Ok(objects::find::<Keyspace>(keyspace)?.set_self_tuning(on != 0)?)
    }

    /// Sets the time that new values live, in milliseconds; -1 for no end.
    fn Java_io_hedgerow_Keyspace_setTimeToLive0(
        _env, id: jlong, keyspace: jlong, ms: jlong
    ) -> () {
        let time = u64::try_from(ms).ok().map(Duration::from_millis);
        let keyspace = objects::keyspace(keyspace)?;
        calls::start(id, move |_| Ok(keyspace.set_time_to_live(time).map(|()| None)?))
    }

    fn Java_io_hedgerow_Keyspace_timeToLive0(_env, keyspace: jlong) -> jlong {
        let time = objects::find::<Keyspace>(keyspace)?.time_to_live();
        Ok(time.map_or(-1, |time| time.as_millis() as jlong))
    }

    /// The time of expiry of a key; -1 for never, -2 if it has no value.
    fn Java_io_hedgerow_Keyspace_expiry0(env, keyspace: jlong, key: jbyteArray) -> jlong {
        let key = env.bytes(key)?;
        let expiry = objects::find::<Keyspace>(keyspace)?.expiry(&key)?;
        Ok(expiry.map_or(-2, millis))
    }

    /// Returns 1 if the key has a value, which expires as given from now on.
    fn Java_io_hedgerow_Keyspace_setExpiry0(
        env, keyspace: jlong, key: jbyteArray, kind: jint, ms: jlong
    ) -> jint {
        let key = env.bytes(key)?;
        let set = objects::find::<Keyspace>(keyspace)?.set_expiry(&key, expiry(kind, ms))?;
        Ok(jint::from(set))
    }

    fn Java_io_hedgerow_Keyspace_clear0(_env, id: jlong, keyspace: jlong) -> () {
        let keyspace = objects::keyspace(keyspace)?;
        calls::start(id, move |_| Ok(keyspace.clear().map(|()| None)?))
    }

    fn Java_io_hedgerow_Keyspace_approximateBytes0(
        env, keyspace: jlong, from: jbyteArray, to: jbyteArray, flags: jint
    ) -> jlong {
        let range = Range::read(env, from, to, flags)?;
        let bytes = objects::find::<Keyspace>(keyspace)?.approximate_bytes::<&[u8]>(range.bounds())?;
        Ok(bytes as jlong)
    }

    fn Java_io_hedgerow_Keyspace_approximateEntries0(
        env, keyspace: jlong, from: jbyteArray, to: jbyteArray, flags: jint
    ) -> jlong {
        let range = Range::read(env, from, to, flags)?;
        let entries = objects::find::<Keyspace>(keyspace)?.approximate_entries::<&[u8]>(range.bounds())?;
        Ok(entries as jlong)
    }

    fn Java_io_hedgerow_Keyspace_stats0(env, keyspace: jlong) -> jbyteArray {
        let json = stats::keyspace(&objects::find::<Keyspace>(keyspace)?.stats());
        env.new_bytes(json.to_string().as_bytes())
    }

    fn Java_io_hedgerow_Keyspace_statsMap0(env, keyspace: jlong) -> jbyteArray {
        let json = stats::keyspace(&objects::find::<Keyspace>(keyspace)?.stats());
        env.new_bytes(&flat(&json))
    }

    // ---- long calls ----

    fn Java_io_hedgerow_Keyspace_flush0(_env, id: jlong, keyspace: jlong) -> () {
        let keyspace = objects::keyspace(keyspace)?;
        calls::start(id, move |_| Ok(keyspace.flush().map(|()| None)?))
    }

    fn Java_io_hedgerow_Keyspace_compact0(
        env, id: jlong, keyspace: jlong, from: jbyteArray, to: jbyteArray, flags: jint
    ) -> () {
        let range = Range::read(env, from, to, flags)?;
        let keyspace = objects::keyspace(keyspace)?;
        calls::start(id, move |running| {
            keyspace.compact_with::<&[u8]>(range.bounds(), |it| {
                running.go_on(it.done_bytes, it.total_bytes)
            })?;
            Ok(None)
        })
    }

    fn Java_io_hedgerow_Keyspace_waitUntilMerged0(_env, id: jlong, keyspace: jlong) -> () {
        let keyspace = objects::keyspace(keyspace)?;
        calls::start(id, move |_| Ok(keyspace.wait_until_merged().map(|()| None)?))
    }

    // ---- asynchronous calls ----

    /// The value of a key: at once, if memory has it. An answer begins with 1 if there is a value;
    /// null comes later.
    fn Java_io_hedgerow_Keyspace_getAsync0(
        env, id: jlong, keyspace: jlong, key: jbyteArray
    ) -> jbyteArray {
        let key = env.bytes(key)?;
        let keyspace = objects::find::<Keyspace>(keyspace)?;
        match keyspace.get_if_cached(&key)? {
            MemoryAnswer::Value(value) => env.new_bytes(&[&[1], &value[..]].concat()),
            MemoryAnswer::Absent => env.new_bytes(&[0]),
            MemoryAnswer::Unknown => {
                let pack = |value: Option<engine::Slice>| value.map(Vec::from);
                calls::follow(id, keyspace.get_async(&key), pack);
                env.new_optional(None)
            }
        }
    }

    fn Java_io_hedgerow_Keyspace_multiGetAsync0(
        env, id: jlong, keyspace: jlong, keys: jbyteArray
    ) -> () {
        let keys = env.bytes(keys)?;
        let pending = objects::find::<Keyspace>(keyspace)?.multi_get_async(&unpack_keys(&keys)?);
        calls::follow(id, pending, |values| Some(pack_values(&values)));
        Ok(())
    }

    fn Java_io_hedgerow_Keyspace_putAsync0(
        env, id: jlong, keyspace: jlong, key: jbyteArray, value: jbyteArray
    ) -> () {
        let (key, value) = (env.bytes(key)?, env.bytes(value)?);
        let keyspace = objects::find::<Keyspace>(keyspace)?;
        let pending = keyspace.put_async(&key, &value);
        calls::follow(id, pending, |()| None);
        Ok(())
    }

    fn Java_io_hedgerow_Keyspace_deleteAsync0(
        env, id: jlong, keyspace: jlong, key: jbyteArray
    ) -> () {
        let key = env.bytes(key)?;
        let keyspace = objects::find::<Keyspace>(keyspace)?;
        calls::follow(id, keyspace.delete_async(&key), |()| None);
        Ok(())
    }

    /// The first entries of a range.
    fn Java_io_hedgerow_Keyspace_scanAsync0(
        env, id: jlong, keyspace: jlong, from: jbyteArray, to: jbyteArray, flags: jint, max: jint
    ) -> () {
        let range = Range::read(env, from, to, flags)?;
        let keyspace = objects::find::<Keyspace>(keyspace)?;
        let pending = keyspace.scan_page_async::<&[u8]>(range.bounds(), max.max(0) as usize);
        calls::follow(id, pending, |entries| Some(pack_entries(&entries)));
        Ok(())
    }
}

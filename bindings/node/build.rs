//! Links the addon: its symbols of Node-API are resolved when Node loads it.

fn main() {
    napi_build::setup();
}

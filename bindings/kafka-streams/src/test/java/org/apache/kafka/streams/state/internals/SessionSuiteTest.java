package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.kstream.EmitStrategy;

/** With the usual stores. */
class SessionSuiteTest extends SessionSuite {
    @Override
    EmitStrategy emitStrategy() {
        return EmitStrategy.onWindowUpdate();
    }

    /** The suite expects of our store what it expects of this one. */
    @Override
    StoreType storeType() {
        return StoreType.RocksDBSessionStore;
    }
}

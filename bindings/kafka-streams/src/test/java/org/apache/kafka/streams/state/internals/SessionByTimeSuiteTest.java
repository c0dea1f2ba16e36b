package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.kstream.EmitStrategy;

/** With the stores for results of closed windows. */
class SessionByTimeSuiteTest extends SessionSuite {
    @Override
    EmitStrategy emitStrategy() {
        return EmitStrategy.onWindowClose();
    }

    /** The suite expects of our store what it expects of this one. */
    @Override
    StoreType storeType() {
        return StoreType.RocksDBTimeOrderedSessionStoreWithIndex;
    }
}

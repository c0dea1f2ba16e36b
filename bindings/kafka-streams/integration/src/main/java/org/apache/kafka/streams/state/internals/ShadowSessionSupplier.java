package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.HedgerowDslStoreSuppliers;
import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;

/** A supplier of session stores that stands in front of one of ours, under a name of Streams. */
abstract class ShadowSessionSupplier
        extends Shadow<SessionBytesStoreSupplier, SessionStore<Bytes, byte[]>>
        implements SessionBytesStoreSupplier {
    ShadowSessionSupplier(
            String name, long retention, EmitStrategy emitStrategy, DslStoreFormat format) {
        super(
                new HedgerowDslStoreSuppliers()
                        .sessionStore(
                                new DslSessionParams(
                                        name, Duration.ofMillis(retention), emitStrategy, format)));
    }

    @Override
    public long segmentIntervalMs() {
        return ours.segmentIntervalMs();
    }

    @Override
    public long retentionPeriod() {
        return ours.retentionPeriod();
    }
}

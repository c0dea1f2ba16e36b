package io.hedgerow.kafka;

import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;

/** Supplies session stores. */
class SessionSupplier extends Supplier<SessionStore<Bytes, byte[]>>
        implements SessionBytesStoreSupplier {
    private final long retention;
    private final boolean timeIndexed;

    /**
     * A supplier.
     *
     * @param timeIndexed true if sessions are found by their end, whatever their keys
     */
    SessionSupplier(String name, Duration retention, boolean timeIndexed) {
        super(name);
        this.retention = millis(retention, "retentionPeriod");
        this.timeIndexed = timeIndexed;
    }

    /** Supplies stores whose values begin with headers. */
    static final class WithHeaders extends SessionSupplier implements HeadersBytesStoreSupplier {
        WithHeaders(String name, Duration retention, boolean timeIndexed) {
            super(name, retention, timeIndexed);
        }

        @Override
        public SessionStore<Bytes, byte[]> get() {
            return new HedgerowSessionStore.WithHeaders(this);
        }
    }

    @Override
    public SessionStore<Bytes, byte[]> get() {
        return new HedgerowSessionStore(this);
    }

    @Override
    public long segmentIntervalMs() {
        return segmentInterval(retention);
    }

    @Override
    public long retentionPeriod() {
        return retention;
    }

    boolean isTimeIndexed() {
        return timeIndexed;
    }
}

package io.hedgerow.kafka;

import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.internals.SessionKeySchema;

/** A session store. */
class HedgerowSessionStore extends SegmentedStore implements SessionStore<Bytes, byte[]> {
    private final boolean timeIndexed;

    HedgerowSessionStore(SessionSupplier of) {
        super(
                of.name(),
                SegmentKeys.SESSION,
                of.retentionPeriod(),
                of.segmentIntervalMs(),
                of.isTimeIndexed());
        timeIndexed = of.isTimeIndexed();
    }

    /** A store whose values begin with headers. */
    static final class WithHeaders extends HedgerowSessionStore implements HeadersBytesStore {
        WithHeaders(SessionSupplier of) {
            super(of);
        }
    }

    @Override
    public void put(Windowed<Bytes> session, byte[] aggregate) {
        Objects.requireNonNull(session, "session cannot be null");
        put(SessionKeySchema.toBinary(session), aggregate);
    }

    @Override
    public void remove(Windowed<Bytes> session) {
        Objects.requireNonNull(session, "session cannot be null");
        delete(SessionKeySchema.toBinary(session));
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        Objects.requireNonNull(key, "key cannot be null");
        return get(SessionKeySchema.toBinary(key, start, end));
    }

    /**
     * Sessions by their end. Only stores for results of closed windows have them, as Streams' own.
     */
    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(long endFrom, long endTo) {
        return timeIndexed
                ? sessions(fetchByTime(endFrom, endTo))
                : SessionStore.super.findSessions(endFrom, endTo);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes key, long endFrom, long startTo) {
        return sessions(fetch(key, endFrom, startTo, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes key, long endFrom, long startTo) {
        return sessions(fetch(key, endFrom, startTo, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
            Bytes keyFrom, Bytes keyTo, long endFrom, long startTo) {
        return sessions(fetch(keyFrom, keyTo, endFrom, startTo, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(
            Bytes keyFrom, Bytes keyTo, long endFrom, long startTo) {
        return sessions(fetch(keyFrom, keyTo, endFrom, startTo, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return findSessions(key, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return backwardFindSessions(key, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo) {
        return findSessions(keyFrom, keyTo, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo) {
        return backwardFindSessions(keyFrom, keyTo, 0, Long.MAX_VALUE);
    }

    private static KeyValueIterator<Windowed<Bytes>, byte[]> sessions(
            KeyValueIterator<Bytes, byte[]> entries) {
        return new Mapped<>(entries, it -> SessionKeySchema.from(Bytes.wrap(it)));
    }
}

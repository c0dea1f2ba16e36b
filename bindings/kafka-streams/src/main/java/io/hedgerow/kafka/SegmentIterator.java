package io.hedgerow.kafka;

import io.hedgerow.Keyspace;
import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * The wanted entries of one segment after the other. A segment that is dropped meanwhile is left
 * out, and a store that is closed has no more entries.
 */
final class SegmentIterator implements KeyValueIterator<Bytes, byte[]> {
    private final HedgerowStore store;
    private final Iterator<Keyspace> segments;
    private final Function<Keyspace, Iterator<KeyValue<Bytes, byte[]>>> opener;
    private final Predicate<byte[]> wanted;
    private Iterator<KeyValue<Bytes, byte[]>> entries = Collections.emptyIterator();
    /** The next wanted entry; null if it is not looked up yet. */
    private KeyValue<Bytes, byte[]> head;

    private volatile boolean closed;

    SegmentIterator(
            HedgerowStore store,
            Iterator<Keyspace> segments,
            Function<Keyspace, Iterator<KeyValue<Bytes, byte[]>>> opener,
            Predicate<byte[]> wanted) {
        this.store = store;
        this.segments = segments;
        this.opener = opener;
        this.wanted = wanted;
        store.add(this);
    }

    @Override
    public synchronized boolean hasNext() {
        while (head == null && !closed) {
            try {
                if (!store.call(this::advance)) {
                    return false;
                }
            } catch (InvalidStateStoreException e) {
                entries = Collections.emptyIterator();
                if (!store.isOpen()) {
                    return false;
                }
            }
        }
        return !closed;
    }

    /** Looks at one more entry, or opens one more segment. Returns false at the end. */
    private boolean advance() {
        if (entries.hasNext()) {
            KeyValue<Bytes, byte[]> entry = entries.next();
            head = wanted.test(entry.key.get()) ? entry : null;
            return true;
        }
        closeEntries();
        if (!segments.hasNext()) {
            return false;
        }
        entries = opener.apply(segments.next());
        return true;
    }

    @Override
    public synchronized KeyValue<Bytes, byte[]> next() {
        KeyValue<Bytes, byte[]> entry = peek();
        head = null;
        return entry;
    }

    @Override
    public synchronized Bytes peekNextKey() {
        return peek().key;
    }

    private KeyValue<Bytes, byte[]> peek() {
        if (!hasNext()) {
            throw new NoSuchElementException("store " + store.name + " has no more entries");
        }
        return head;
    }

    private void closeEntries() {
        if (entries instanceof AutoCloseable) {
            HedgerowStore.close((AutoCloseable) entries);
        }
        entries = Collections.emptyIterator();
    }

    @Override
    public synchronized void close() {
        closed = true;
        store.remove(this);
        closeEntries();
    }
}

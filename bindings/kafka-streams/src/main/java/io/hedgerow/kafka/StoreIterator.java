package io.hedgerow.kafka;

import io.hedgerow.Entry;
import io.hedgerow.EntryIterator;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;

/** The entries of a range of a store, as they were when it was made. */
final class StoreIterator implements KeyValueIterator<Bytes, byte[]> {
    private final HedgerowStore store;
    private final EntryIterator entries;
    private volatile boolean closed;

    /** Adds itself to the store's open iterators, until it is closed. */
    StoreIterator(HedgerowStore store, EntryIterator entries) {
        this.store = store;
        this.entries = entries;
        store.add(this);
    }

    @Override
    public synchronized boolean hasNext() {
        if (closed) {
            throw new InvalidStateStoreException("the iterator of store " + store.name + " is closed");
        }
        return store.call(entries::hasNext);
    }

    @Override
    public synchronized KeyValue<Bytes, byte[]> next() {
        check();
        Entry entry = entries.next();
        return KeyValue.pair(Bytes.wrap(entry.key()), entry.value());
    }

    @Override
    public synchronized Bytes peekNextKey() {
        check();
        return Bytes.wrap(entries.peekKey());
    }

    private void check() {
        if (!hasNext()) {
            throw new NoSuchElementException(
                    "the iterator of store " + store.name + " has no more entries");
        }
    }

    @Override
    public synchronized void close() {
        closed = true;
        store.remove(this);
        entries.close();
    }
}

package io.hedgerow;

import java.util.AbstractMap;
import java.util.AbstractSet;
import java.util.Collections;
import java.util.Comparator;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableSet;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentNavigableMap;

/** A range of a sorted keyspace, in either direction, as a map. */
final class KeyspaceMap extends AbstractMap<Bytes, Bytes>
        implements ConcurrentNavigableMap<Bytes, Bytes> {
    private final Keyspace keyspace;
    private final Limit low;
    private final Limit high;
    private final boolean descending;

    KeyspaceMap(Keyspace keyspace) {
        this(keyspace, Limit.NONE, Limit.NONE, false);
    }

    private KeyspaceMap(Keyspace keyspace, Limit low, Limit high, boolean descending) {
        this.keyspace = keyspace;
        this.low = low;
        this.high = high;
        this.descending = descending;
    }

    /** An end of a range. */
    private static final class Limit {
        static final Limit NONE = new Limit(null, false);

        final Bytes key;
        final boolean included;

        Limit(Bytes key, boolean included) {
            this.key = key;
            this.included = included;
        }

        /** Returns true if a key is on the inner side of a lower end. */
        boolean isBelow(Bytes other) {
            return key == null || other.compareTo(key) >= (included ? 0 : 1);
        }

        /** Returns true if a key is on the inner side of an upper end. */
        boolean isAbove(Bytes other) {
            return key == null || other.compareTo(key) <= (included ? 0 : -1);
        }

        /** Returns true if another lower end is on the inner side of this one, or the same. */
        boolean isBelow(Limit other) {
            return isBelow(other.key) || !other.included && other.key.equals(key);
        }

        /** Returns true if another upper end is on the inner side of this one, or the same. */
        boolean isAbove(Limit other) {
            return isAbove(other.key) || !other.included && other.key.equals(key);
        }
    }

    private static KeyRange range(Limit low, Limit high, boolean descending) {
        KeyRange range = KeyRange.all();
        if (low.key != null) {
            range = low.included ? KeyRange.from(low.key.array()) : KeyRange.after(low.key.array());
        }
        if (high.key != null) {
            range = high.included ? range.through(high.key.array()) : range.to(high.key.array());
        }
        return descending ? range.reversed() : range;
    }

    private KeyRange range() {
        return range(low, high, descending);
    }

    private boolean has(Bytes key) {
        return low.isBelow(key) && high.isAbove(key);
    }

    private byte[] checked(Bytes key) {
        if (!has(key)) {
            throw new IllegalArgumentException("expected a key of the range " + range() + ", found " + key);
        }
        return key.array();
    }

    // ---- one key ----

    @Override
    public Bytes get(Object key) {
        Bytes wanted = (Bytes) Objects.requireNonNull(key);
        return has(wanted) ? Bytes.wrap(keyspace.get(wanted.array())) : null;
    }

    @Override
    public boolean containsKey(Object key) {
        Bytes wanted = (Bytes) Objects.requireNonNull(key);
        return has(wanted) && keyspace.contains(wanted.array());
    }

    @Override
    public boolean containsValue(Object value) {
        return super.containsValue(Objects.requireNonNull(value));
    }

    @Override
    public Bytes put(Bytes key, Bytes value) {
        return Bytes.wrap(keyspace.getAndPut(checked(key), value.array()));
    }

    @Override
    public Bytes remove(Object key) {
        Bytes wanted = (Bytes) Objects.requireNonNull(key);
        return has(wanted) ? Bytes.wrap(keyspace.getAndDelete(wanted.array())) : null;
    }

    @Override
    public Bytes putIfAbsent(Bytes key, Bytes value) {
        return Bytes.wrap(keyspace.putIfAbsent(checked(key), value.array()));
    }

    @Override
    public boolean remove(Object key, Object value) {
        Bytes wanted = (Bytes) Objects.requireNonNull(key);
        return value instanceof Bytes
                && has(wanted)
                && keyspace.compareAndSet(wanted.array(), ((Bytes) value).array(), null);
    }

    @Override
    public boolean replace(Bytes key, Bytes oldValue, Bytes newValue) {
        byte[] next = newValue.array();
        byte[] expected = oldValue.array();
        return has(key) && keyspace.compareAndSet(key.array(), expected, next);
    }

    @Override
    public Bytes replace(Bytes key, Bytes value) {
        byte[] next = value.array();
        return has(key) ? Bytes.wrap(keyspace.replace(key.array(), next)) : null;
    }

    // ---- the whole range ----

    @Override
    public int size() {
        return (int) Math.min(keyspace.count(range()), Integer.MAX_VALUE);
    }

    @Override
    public boolean isEmpty() {
        return keyspace.first(range().keysOnly()).isEmpty();
    }

    @Override
    public void clear() {
        keyspace.deleteRange(range());
    }

    @Override
    public Set<Map.Entry<Bytes, Bytes>> entrySet() {
        return new EntrySet();
    }

    private final class EntrySet extends AbstractSet<Map.Entry<Bytes, Bytes>> {
        @Override
        public Iterator<Map.Entry<Bytes, Bytes>> iterator() {
            return new Entries();
        }

        @Override
        public int size() {
            return KeyspaceMap.this.size();
        }

        @Override
        public boolean isEmpty() {
            return KeyspaceMap.this.isEmpty();
        }

        @Override
        public void clear() {
            KeyspaceMap.this.clear();
        }

        @Override
        public boolean contains(Object object) {
            if (!(object instanceof Map.Entry)) {
                return false;
            }
            Map.Entry<?, ?> entry = (Map.Entry<?, ?>) object;
            return entry.getKey() instanceof Bytes
                    && entry.getValue() != null
                    && entry.getValue().equals(get(entry.getKey()));
        }

        @Override
        public boolean remove(Object object) {
            return object instanceof Map.Entry
                    && ((Map.Entry<?, ?>) object).getKey() instanceof Bytes
                    && KeyspaceMap.this.remove(
                            ((Map.Entry<?, ?>) object).getKey(),
                            ((Map.Entry<?, ?>) object).getValue());
        }
    }

    private final class Entries implements Iterator<Map.Entry<Bytes, Bytes>> {
        private final EntryIterator entries = keyspace.iterate(range());
        private Bytes last;

        @Override
        public boolean hasNext() {
            return entries.hasNext();
        }

        @Override
        public Map.Entry<Bytes, Bytes> next() {
            io.hedgerow.Entry entry = entries.next();
            last = Bytes.wrap(entry.key());
            return new SimpleEntry<>(last, Bytes.wrap(entry.value())) {
                private static final long serialVersionUID = 1;

                @Override
                public Bytes setValue(Bytes value) {
                    put(getKey(), value);
                    return super.setValue(value);
                }
            };
        }

        @Override
        public void remove() {
            if (last == null) {
                throw new IllegalStateException("expected an entry to remove, found none");
            }
            keyspace.delete(last.array());
            last = null;
        }
    }

    // ---- neighbours ----

    private static Map.Entry<Bytes, Bytes> entry(Optional<io.hedgerow.Entry> found) {
        return found.map(it -> new SimpleImmutableEntry<>(Bytes.wrap(it.key()), Bytes.wrap(it.value())))
                .orElse(null);
    }

    private static Bytes key(Map.Entry<Bytes, Bytes> entry) {
        return entry == null ? null : entry.getKey();
    }

    /** The nearest entry behind a key in the direction of the map, or before it. */
    private Map.Entry<Bytes, Bytes> nearest(Bytes key, boolean included, boolean behind) {
        Limit limit = new Limit(Objects.requireNonNull(key), included);
        if (behind != descending) {
            Limit from = low.key != null && !low.isBelow(limit) ? low : limit;
            return entry(keyspace.first(range(from, high, false)));
        }
        Limit to = high.key != null && !high.isAbove(limit) ? high : limit;
        return entry(keyspace.first(range(low, to, true)));
    }

    @Override
    public Map.Entry<Bytes, Bytes> lowerEntry(Bytes key) {
        return nearest(key, false, false);
    }

    @Override
    public Map.Entry<Bytes, Bytes> floorEntry(Bytes key) {
        return nearest(key, true, false);
    }

    @Override
    public Map.Entry<Bytes, Bytes> ceilingEntry(Bytes key) {
        return nearest(key, true, true);
    }

    @Override
    public Map.Entry<Bytes, Bytes> higherEntry(Bytes key) {
        return nearest(key, false, true);
    }

    @Override
    public Bytes lowerKey(Bytes key) {
        return key(lowerEntry(key));
    }

    @Override
    public Bytes floorKey(Bytes key) {
        return key(floorEntry(key));
    }

    @Override
    public Bytes ceilingKey(Bytes key) {
        return key(ceilingEntry(key));
    }

    @Override
    public Bytes higherKey(Bytes key) {
        return key(higherEntry(key));
    }

    @Override
    public Map.Entry<Bytes, Bytes> firstEntry() {
        return entry(keyspace.first(range()));
    }

    @Override
    public Map.Entry<Bytes, Bytes> lastEntry() {
        return entry(keyspace.first(range().reversed()));
    }

    @Override
    public Bytes firstKey() {
        return existing(firstEntry());
    }

    @Override
    public Bytes lastKey() {
        return existing(lastEntry());
    }

    private static Bytes existing(Map.Entry<Bytes, Bytes> entry) {
        if (entry == null) {
            throw new NoSuchElementException("the range has no entries");
        }
        return entry.getKey();
    }

    @Override
    public Map.Entry<Bytes, Bytes> pollFirstEntry() {
        return descendingMap().pollLastEntry();
    }

    @Override
    public Map.Entry<Bytes, Bytes> pollLastEntry() {
        while (true) {
            Map.Entry<Bytes, Bytes> last = lastEntry();
            if (last == null || remove(last.getKey(), last.getValue())) {
                return last;
            }
        }
    }

    // ---- parts ----

    @Override
    public Comparator<? super Bytes> comparator() {
        return descending ? Collections.reverseOrder() : null;
    }

    @Override
    public ConcurrentNavigableMap<Bytes, Bytes> descendingMap() {
        return new KeyspaceMap(keyspace, low, high, !descending);
    }

    @Override
    public ConcurrentNavigableMap<Bytes, Bytes> subMap(
            Bytes from, boolean fromIncluded, Bytes to, boolean toIncluded) {
        int order = from.compareTo(to);
        if (descending ? order < 0 : order > 0) {
            throw new IllegalArgumentException("expected a range, found " + from + " to " + to);
        }
        return part(new Limit(from, fromIncluded), new Limit(to, toIncluded));
    }

    @Override
    public ConcurrentNavigableMap<Bytes, Bytes> headMap(Bytes to, boolean included) {
        return part(null, new Limit(Objects.requireNonNull(to), included));
    }

    @Override
    public ConcurrentNavigableMap<Bytes, Bytes> tailMap(Bytes from, boolean included) {
        return part(new Limit(Objects.requireNonNull(from), included), null);
    }

    /** The part between two keys in the direction of the map; null keeps its own end. */
    private KeyspaceMap part(Limit from, Limit to) {
        Limit below = descending ? to : from;
        Limit above = descending ? from : to;
        for (Limit limit : new Limit[] {below, above}) {
            if (limit != null && !(low.isBelow(limit) && high.isAbove(limit))) {
                throw new IllegalArgumentException(
                        "expected a part of the range " + range() + ", found " + limit.key);
            }
        }
        return new KeyspaceMap(
                keyspace, below == null ? low : below, above == null ? high : above, descending);
    }

    @Override
    public ConcurrentNavigableMap<Bytes, Bytes> subMap(Bytes from, Bytes to) {
        return subMap(from, true, to, false);
    }

    @Override
    public ConcurrentNavigableMap<Bytes, Bytes> headMap(Bytes to) {
        return headMap(to, false);
    }

    @Override
    public ConcurrentNavigableMap<Bytes, Bytes> tailMap(Bytes from) {
        return tailMap(from, true);
    }

    @Override
    public NavigableSet<Bytes> keySet() {
        return navigableKeySet();
    }

    @Override
    public NavigableSet<Bytes> navigableKeySet() {
        return new Keys(this);
    }

    @Override
    public NavigableSet<Bytes> descendingKeySet() {
        return descendingMap().navigableKeySet();
    }

    /** The keys of a map. */
    private static final class Keys extends AbstractSet<Bytes> implements NavigableSet<Bytes> {
        private final ConcurrentNavigableMap<Bytes, Bytes> map;

        Keys(ConcurrentNavigableMap<Bytes, Bytes> map) {
            this.map = map;
        }

        @Override
        public Iterator<Bytes> iterator() {
            Iterator<Map.Entry<Bytes, Bytes>> entries = map.entrySet().iterator();
            return new Iterator<>() {
                @Override
                public boolean hasNext() {
                    return entries.hasNext();
                }

                @Override
                public Bytes next() {
                    return entries.next().getKey();
                }

                @Override
                public void remove() {
                    entries.remove();
                }
            };
        }

        @Override
        public int size() {
            return map.size();
        }

        @Override
        public boolean isEmpty() {
            return map.isEmpty();
        }

        @Override
        public boolean contains(Object key) {
            return map.containsKey(key);
        }

        @Override
        public boolean remove(Object key) {
            return map.remove(key) != null;
        }

        @Override
        public void clear() {
            map.clear();
        }

        @Override
        public Comparator<? super Bytes> comparator() {
            return map.comparator();
        }

        @Override
        public Bytes first() {
            return map.firstKey();
        }

        @Override
        public Bytes last() {
            return map.lastKey();
        }

        @Override
        public Bytes lower(Bytes key) {
            return map.lowerKey(key);
        }

        @Override
        public Bytes floor(Bytes key) {
            return map.floorKey(key);
        }

        @Override
        public Bytes ceiling(Bytes key) {
            return map.ceilingKey(key);
        }

        @Override
        public Bytes higher(Bytes key) {
            return map.higherKey(key);
        }

        @Override
        public Bytes pollFirst() {
            return key(map.pollFirstEntry());
        }

        @Override
        public Bytes pollLast() {
            return key(map.pollLastEntry());
        }

        @Override
        public NavigableSet<Bytes> descendingSet() {
            return map.descendingKeySet();
        }

        @Override
        public Iterator<Bytes> descendingIterator() {
            return descendingSet().iterator();
        }

        @Override
        public NavigableSet<Bytes> subSet(
                Bytes from, boolean fromIncluded, Bytes to, boolean toIncluded) {
            return map.subMap(from, fromIncluded, to, toIncluded).navigableKeySet();
        }

        @Override
        public NavigableSet<Bytes> headSet(Bytes to, boolean included) {
            return map.headMap(to, included).navigableKeySet();
        }

        @Override
        public NavigableSet<Bytes> tailSet(Bytes from, boolean included) {
            return map.tailMap(from, included).navigableKeySet();
        }

        @Override
        public NavigableSet<Bytes> subSet(Bytes from, Bytes to) {
            return subSet(from, true, to, false);
        }

        @Override
        public NavigableSet<Bytes> headSet(Bytes to) {
            return headSet(to, false);
        }

        @Override
        public NavigableSet<Bytes> tailSet(Bytes from) {
            return tailSet(from, true);
        }
    }
}

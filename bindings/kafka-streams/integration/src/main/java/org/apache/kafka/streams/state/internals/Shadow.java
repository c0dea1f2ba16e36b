package org.apache.kafka.streams.state.internals;

import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.StoreSupplier;

/** A supplier that stands in front of one of ours, under a name of Streams. */
abstract class Shadow<O extends StoreSupplier<S>, S extends StateStore> implements StoreSupplier<S> {
    final O ours;

    Shadow(O ours) {
        this.ours = ours;
    }

    @Override
    public String name() {
        return ours.name();
    }

    @Override
    public S get() {
        return ours.get();
    }

    @Override
    public String metricsScope() {
        return ours.metricsScope();
    }
}

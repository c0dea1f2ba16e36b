/**
 * Hedgerow, an embeddable key-value engine.
 *
 * <p>{@link io.hedgerow.Hedgerow} opens a database, a directory of {@link io.hedgerow.Keyspace
 * keyspaces}, which map keys to values. Objects of this package may be used by many threads at
 * once, unless they say otherwise. Use after closing is an {@link IllegalStateException}.
 */
package io.hedgerow;

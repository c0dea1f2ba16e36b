package io.hedgerow;

import java.util.Optional;

/** Another write came first: try the transaction again. */
public class ConflictException extends HedgerowException {
    private static final long serialVersionUID = 1;

    private final String keyspace;
    private final Bytes key;

    ConflictException(String message, String keyspace, Bytes key) {
        super(message);
        this.keyspace = keyspace;
        this.key = key;
    }

    /** The keyspace that the other write has changed, if a transaction was refused. */
    public Optional<String> keyspace() {
        return Optional.ofNullable(keyspace);
    }

    /**
     * The key that the other write has changed, if a transaction was refused. If it has deleted a
     * range, or all of the keyspace, this is the first key that the transaction depends on.
     */
    public Optional<Bytes> key() {
        return Optional.ofNullable(key);
    }
}

package io.hedgerow;

import java.util.Optional;

/** Bytes on disk differ from the bytes written. The message names the file. */
public class CorruptionException extends HedgerowException {
    private static final long serialVersionUID = 1;

    private final String keyspace;

    CorruptionException(String message, String keyspace) {
        super(message);
        this.keyspace = keyspace;
    }

    /**
     * The keyspace that is damaged, if a write found no memory because its flush failed: it may be
     * another one than that of the write. All other calls meet damage of what they read.
     */
    public Optional<String> keyspace() {
        return Optional.ofNullable(keyspace);
    }
}

package io.hedgerow;

/** The operating system refused to read or write. */
public class StorageException extends HedgerowException {
    private static final long serialVersionUID = 1;

    StorageException(String message) {
        super(message);
    }
}

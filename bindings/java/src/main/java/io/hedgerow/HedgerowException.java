package io.hedgerow;

/**
 * A failure that is no mistake of the caller. Its message says what was expected and found.
 * Mistakes are {@link IllegalArgumentException}, {@link IllegalStateException} (use after closing)
 * and {@link UnsupportedOperationException}.
 */
public class HedgerowException extends RuntimeException {
    private static final long serialVersionUID = 1;

    HedgerowException(String message) {
        super(message);
    }

    HedgerowException(String message, Throwable cause) {
        super(message, cause);
    }
}

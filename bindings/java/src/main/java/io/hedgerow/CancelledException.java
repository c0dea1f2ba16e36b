package io.hedgerow;

/** The caller cancelled the call. */
public class CancelledException extends HedgerowException {
    private static final long serialVersionUID = 1;

    CancelledException(String message) {
        super(message);
    }
}

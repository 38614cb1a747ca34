/** An object as JSON knows it, of which nothing more is known. */
export type Json = Record<string, unknown>;

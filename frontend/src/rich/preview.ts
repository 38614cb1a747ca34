/** The event with which a code block asks for its preview. */
export const PREVIEW = "code-preview";

export interface PreviewRequest {
  kind: string;
  text: string;
}

/** Titles of the errors with which runs end. `planck_nb/jupyter/display/error_titles.py` has the same. */

export const ERROR_TITLES: Readonly<Record<string, string>> = {
  AuthenticationError: 'The provider does not accept the API key',
  MissingCredentialError: 'No API key',
  QuotaExceededError: 'The quota of the provider is used up',
  RateLimitError: 'The provider gets too many requests',
  ProviderConnectionError: 'No connection to the provider',
  ProviderTimeoutError: 'The provider did not answer in time',
  StreamTruncated: 'The connection closed before the answer was complete',
  ProviderUnavailableError: 'The provider is not available',
  NotFoundError: 'The provider does not have this model',
  UnknownModelError: 'There is no such model',
  ContextOverflowError: 'The conversation is too long for the model',
  PromptTooLongError: 'The prompt is too long for the model',
  LimitError: 'A limit was reached',
};

export function errorTitle(kind: string): string {
  return ERROR_TITLES[kind] ?? 'The run failed';
}

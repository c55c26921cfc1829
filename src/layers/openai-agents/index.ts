// reprise/openai-agents: a Session for the OpenAI Agents SDK.
export {}

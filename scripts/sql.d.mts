export function embedded(): string

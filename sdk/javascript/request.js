// The question.
import * as host from 'longshore:policy/request@0.1.0';

export const now = () => host.now();

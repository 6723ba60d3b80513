/** The typesetter of formulas, which is larger than all other code of the views. */

import temml from 'temml/temml.js';

export const { render } = temml;
